"""Two hundred short texts of our own that tokenizers get wrong.

Imported by the fixture scripts beside it; the order is part of the fixtures, so add new
strings at the end of a group only together with new fixtures.
"""

ZWJ, ZWNJ, VS16, BOM, NBSP, IDEOGRAPHIC_SPACE = "\u200d", "\u200c", "\ufe0f", "\ufeff", "\u00a0", "\u3000"

EMPTY_AND_SPACES = [
    "", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\t\t\t", " \t \t ",
    "a ", " a", "  a", "a  ", "  a  b   c    d", "word" + " " * 37 + "word", " " * 130,
    "\n" * 19, "line one\nline two\n", "line one\r\nline two\r\n", "mixed\r\n\n\r endings\r",
    "trailing tab\t", "tab\tseparated\tvalues", "    indented by four", "\x0bvertical\x0cfeed",
    f"no{NBSP}break", f"{NBSP}{NBSP} lead", f"wide{IDEOGRAPHIC_SPACE}space{IDEOGRAPHIC_SPACE}",
    "thin\u2009space\u200ahair", "line\u2028sep\u2029para", "next\u0085line", "zero\u200bwidth",
    "\u1680ogham space mark", "a\u202fnarrow",
]

DIGITS = [
    "7", "42", "365", "2048", "31415", "1234567890", " 12 345 6789", "  99", "   1000000",
    "3.14159", "1,234,567.89", "0x1F4A9", "1e-10", "2026-11-29", "12:34:56.789", "+49 (30) 901820",
    "v2.10.3-rc1", "room101", "x86_64", "\u0661\u0662\u0663\u0664", "\u0967\u0968\u0969 \u0966",
    "\u00bd cup and \u00b2\u00b3", "\u2167 \u2173 \u3007", "\u2460\u2461\u2462", "\U0001d7d8\U0001d7d9\U0001d7da",
    "  \u0665\u0666", "\uff11\uff12\uff13\uff14", "$5.00", "1st 2nd 3rd 4th",
]

CONTRACTIONS = [
    "I'm sure you're right, they've said we'll see he'd go; it's Ann's, isn't it?",
    "I'M SURE YOU'RE RIGHT, THEY'VE SAID WE'LL SEE HE'D GO; IT'S ANN'S, ISN'T IT?",
    "I'm You'Re They'vE We'lL He'D It'S", "'s", "'S 'T 'RE 'VE 'M 'LL 'D", "''s'' '''",
    "rock'n'roll o'clock ma'am y'all'd've", "don\u2019t can\u2019t won\u2019t", "dogs' tails'",
    "'tis 'twas '90s", "x's, 5's, _'s", "l'\u00e9t\u00e9 d'Artagnan", "'\u017f long s", "'re: subject",
]

LATIN_AND_MARKS = [
    "na\u00efve caf\u00e9 fa\u00e7ade", "nai\u0308ve cafe\u0301 fac\u0327ade", "\u212bngstr\u00f6m A\u030angstrom",
    "stra\u00dfe STRASSE \u1e9e", "\u0130stanbul \u0131\u015f\u0131k", "Z\u0351\u036b\u0343al\u0334\u0315go\u0361\u0362",
    "\ufb01nd the o\ufb03ce", "\u01c6 \u01c5 \u01c4", "Vi\u1ec7t Nam \u0111\u1eb9p", "\u0301alone", "e\u0301\u0301\u0301",
    "na\u00efve" + "\u0301" * 12, "\u00df\u00e6\u00f8\u00e5\u00fe\u00f0", "\u1e69 s\u0323\u0307 \u1e61\u0323",
]

OTHER_SCRIPTS = [
    "\u4eca\u65e5\u306f\u3044\u3044\u5929\u6c17\u3067\u3059\u306d\u3002", "\u6211\u4eec\u4eca\u5929\u53bb\u516c\u56ed\uff0c\u597d\u5417\uff1f",
    "\u300c\u5f15\u7528\u300d\u3068\u300e\u4e8c\u91cd\u300f", "\u30ab\u30bf\u30ab\u30ca\u3068\uff76\uff80\uff76\uff85", "\u30cf\u309a\u30d2\u3099",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u5e74\u6708\u65e52026\u5e7411\u670829\u65e5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0627\u0644\u0652\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u064e\u0629\u064f",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd", "\u202bright to left\u202c",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0439 \u0438\u0306 \u0451 \u0435\u0308", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u1f08\u03c1\u03c7\u1fc7 \u1f26\u03bd", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u13a3\u13e3\u13b3\u13a9", "\u16a0\u16a2\u16a6\u16a8\u16b1\u16b2",
    "\u1019\u103c\u1014\u103a\u1019\u102c", "\u12a0\u121b\u122d\u129b", "\U00020000\U0002a6d6 \u9f98", "\uff21\uff22\uff23 \uff41\uff42\uff43\uff01",
]

EMOJI = [
    "\U0001f600", "\U0001f600\U0001f600 \U0001f600", f"\U0001f468{ZWJ}\U0001f469{ZWJ}\U0001f467{ZWJ}\U0001f466",
    f"\U0001f3f3{VS16}{ZWJ}\U0001f308", "\U0001f44d\U0001f3fd ok\U0001f44d\U0001f3ff", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    f"1{VS16}\u20e3 #{VS16}\u20e3", f"\u2764{VS16}\u200d\U0001f525 love", f"\U0001f9d1\U0001f3fe{ZWJ}\U0001f680 lifts off",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "a\U0001f600b\U0001f601c1", f"{ZWJ}{ZWNJ}{VS16}",
]

SPECIALS = [
    "<|im_start|>", "<|im_start|>user\nhello<|im_end|>\n", "text <|endoftext|> more text", "</s>", "<s>[INST] hi [/INST]</s>",
    "<|endoftext|><|endoftext|>", "<|im_start|", "< |im_end| >", "<|IM_END|>", "<unk> <pad> <mask> [CLS]",
    "  <|im_end|>  ", "<repo_name>ours<file_sep>a.rs", "<|begin_of_text|>a<|eot_id|>", "<|begin_of_text|><|begin_of_text|>twice",
    "\n<|im_end|>\n\n<|im_start|>\r\n", "12<|im_end|>34", "<filename", "don't<|endoftext|>'s",
]

CODE = [
    "fn main() {\n    println!(\"{:?}\", vec![1, 2, 3]);\n}\n", "def f(x):\n\treturn x**2 if x>0 else -x\n",
    "for(int i=0;i<n;++i){a[i]+=b[i]*2;}", "<div class=\"row\"><!-- note --></div>", "SELECT * FROM t WHERE a>=10 AND b!='x';",
    "{\"key\": [1, 2.5, null, true], \"s\": \"\\u00e9\\n\"}", "#include <vector>\r\n\r\nint main(){}\r\n", "snake_case camelCase PascalCase SCREAMING_CASE kebab-case",
    "https://example.org/a?b=c&d=%20#frag", "name@example.org", "C:\\Users\\me\\file.txt", "$x->{y}[0] =~ s/\\s+$//g;",
    "\\frac{a}{b} \\alpha_{ij}^2", "    if a:\n        if b:\n            pass\n    else:\n        ...\n", "=====-----=====", "...!?!?...",
    "/* comment */ // line", "a&&b||!c", "\u2192 \u21d2 \u2264 \u2260 \u221e \u2211", "`code` **bold** _it_ ~~no~~",
]

PROSE = [
    "The quick brown fox jumps over the lazy dog.", "Rain fell on the harbour, and the ferry was late again.",
    "ALL CAPS SENTENCE WITH NUMBERS 123 AND 45", "word,word;word:word", "(round) [square] {curly} <angle>", "\u201ccurly\u201d \u2018quotes\u2019 \u2014 dash \u2013 en\u2026",
    "Supercalifragilisticexpialidocious antidisestablishmentarianism", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ha ha  ha   ha    ha",
    "ends with newline\n", "\n\n\nstarts with newlines", "para one.\n\npara two.\n\n\npara three.", "semi ; colon : bang ! query ?",
    "A day of sun\tA day of rain\n1.\t2.\t3.",
]

CONTROLS = [
    "\x00", "a\x00b", "\x01\x02\x03\x1b[31mred\x1b[0m", "\x7f", f"{BOM}bom first", "\ufffd", "\ufffe\uffff", "\ue000\uf8ff",
    "\U0010ffff", "\U000f0000", "soft\u00adhyphen", "\u2066iso\u2069", "bell\a back\b",
    # Bytes that SmolLM2's vocabulary lacks.
    "\x04\x13\x16 end", "a\U00050000\U00050000\x06b",
]

HARD_STRINGS = (
    EMPTY_AND_SPACES + DIGITS + CONTRACTIONS + LATIN_AND_MARKS + OTHER_SCRIPTS + EMOJI + SPECIALS + CODE + PROSE + CONTROLS
)

if __name__ == "__main__":
    print(len(HARD_STRINGS), len(set(HARD_STRINGS)))
