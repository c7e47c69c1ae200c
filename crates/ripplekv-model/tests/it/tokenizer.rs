//! Ids, texts and special tokens equal transformers' on 200 hard strings, for both loaders.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value as Metadatum};
use ripplekv_model::tokenizer::{PRE_TOKENIZERS, TextTokenizer};
use serde_json::Value;

use crate::support::{fixture, json_fixture, smollm2};

fn strings() -> Vec<String> {
    let document = json_fixture("tokenizers/strings.json");
    serde_json::from_value(document["strings"].clone()).unwrap()
}

fn ids_of(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn metadata(path: &Path) -> HashMap<String, Metadatum> {
    Content::read(&mut File::open(path).unwrap())
        .unwrap()
        .metadata
}

fn by_folder(name: &str) -> TextTokenizer {
    TextTokenizer::from_folder(&fixture("tokenizers").join(name)).unwrap()
}

fn by_gguf(name: &str) -> TextTokenizer {
    let path = fixture("tokenizers").join(format!("{name}.gguf"));
    TextTokenizer::from_gguf(&metadata(&path)).unwrap()
}

/// Ids, both decodings and the places of the tokens, for every string.
fn assert_equals_transformers(label: &str, tokenizer: &TextTokenizer, expected: &Value) {
    let strings = strings();
    assert_eq!(strings.len(), 200);
    for (index, string) in strings.iter().enumerate() {
        let ids = ids_of(&expected["ids"][index]);
        let found = tokenizer.encode(string, false).unwrap();
        assert_eq!(found, ids, "{label}: string {index} {string:?}");

        let decoded = expected["decoded"][index.to_string()]
            .as_str()
            .unwrap_or(string);
        assert_eq!(
            tokenizer.decode(&ids, false).unwrap(),
            decoded,
            "{label}: {index}"
        );
        let plain = expected["decoded_without_special"][index.to_string()]
            .as_str()
            .unwrap_or(decoded);
        assert_eq!(
            tokenizer.decode(&ids, true).unwrap(),
            plain,
            "{label}: {index}"
        );

        let placed = tokenizer.encode_with_places(string).unwrap();
        assert_eq!(placed.ids, ids, "{label}: {index}");
        let mut reached = 0;
        // Composing two characters into one leaves the second without a token.
        let composed = decoded != string;
        for (start, end) in placed.byte_ranges {
            assert!(
                (start <= reached || composed)
                    && string.is_char_boundary(start)
                    && string.is_char_boundary(end),
                "{label}: string {index} has no token for bytes {reached}..{start}"
            );
            reached = reached.max(end);
        }
        assert!(
            reached == string.len() || composed,
            "{label}: {index} {string:?}"
        );
    }
}

#[test]
fn every_pre_tokenizer_equals_transformers_from_both_kinds_of_file() {
    let expected = json_fixture("tokenizers/expected.json");
    for entry in PRE_TOKENIZERS {
        let expected = &expected[entry.name];
        for (label, tokenizer) in [
            (format!("{} folder", entry.name), by_folder(entry.name)),
            (format!("{} gguf", entry.name), by_gguf(entry.name)),
        ] {
            assert_equals_transformers(&label, &tokenizer, expected);
            for (index, string) in strings().iter().enumerate() {
                let extra = expected["leading_special"][index].as_u64().unwrap() as usize;
                let with = tokenizer.encode(string, true).unwrap();
                let without = ids_of(&expected["ids"][index]);
                assert_eq!(with[extra..], without, "{label}: string {index}");
                if tokenizer.adds_bos() {
                    assert_eq!((extra, with[0]), (1, tokenizer.bos().unwrap().0));
                } else {
                    assert_eq!(extra, 0);
                }
            }
        }
    }
}

#[test]
fn special_tokens_are_as_the_files_say() {
    for (name, bos, adds_bos, ends) in [
        ("smollm", Some((1, "<|im_start|>")), false, &[2][..]),
        ("llama-bpe", Some((0, "<|begin_of_text|>")), true, &[1, 2]),
        ("qwen2", None, false, &[0, 2]),
        ("gpt-2", Some((0, "<|endoftext|>")), false, &[0]),
    ] {
        for tokenizer in [by_folder(name), by_gguf(name)] {
            assert_eq!(tokenizer.bos(), bos, "{name}");
            assert_eq!(tokenizer.adds_bos(), adds_bos, "{name}");
            assert_eq!(tokenizer.end_tokens(), ends, "{name}");
            assert_eq!(tokenizer.vocab_size(), 600, "{name}");
            let newline = tokenizer.newline_token().unwrap();
            assert_eq!(tokenizer.decode(&[newline], false).unwrap(), "\n", "{name}");
            assert_eq!(
                tokenizer.chat(" When? ").unwrap().as_deref(),
                Some("[user] When?\n[assistant] "),
                "{name}"
            );
            assert!(tokenizer.template_hash().is_some());
        }
        assert_ne!(by_folder(name).hash(), by_gguf(name).hash());
        assert_eq!(by_gguf(name).hash(), by_gguf(name).hash());
        assert_eq!(
            by_folder(name).template_hash(),
            by_gguf(name).template_hash()
        );
    }
}

#[test]
fn gguf_metadata_decide_about_bos() {
    let path = fixture("tokenizers/llama-bpe.gguf");
    let key = "tokenizer.ggml.add_bos_token";
    let mut metadata = metadata(&path);
    let begins = |metadata: &HashMap<String, Metadatum>| {
        let tokenizer = TextTokenizer::from_gguf(metadata).unwrap();
        let ids = tokenizer.encode("tide", true).unwrap();
        assert_eq!(ids[0] == 0, tokenizer.adds_bos());
        tokenizer.adds_bos()
    };
    assert!(begins(&metadata));
    metadata.insert(key.to_owned(), Metadatum::Bool(false));
    assert!(!begins(&metadata));
    // Llama 3 files without the key: llama.cpp adds one.
    metadata.remove(key);
    assert!(begins(&metadata));
}

#[test]
fn a_folder_may_name_more_than_tokenizer_json_does() {
    let source = fixture("tokenizers/smollm");
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::copy(
        source.join("tokenizer.json"),
        folder.path().join("tokenizer.json"),
    )
    .unwrap();
    let load = || TextTokenizer::from_folder(folder.path());

    let bare = load().unwrap();
    assert_eq!(bare.bos(), None);
    assert!(bare.end_tokens().is_empty());
    assert_eq!(bare.chat("x").unwrap(), None);

    write(
        "special_tokens_map.json",
        r#"{"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>", "pad_token": "<|filler|>"}"#,
    );
    let mapped = load().unwrap();
    assert_eq!(mapped.bos(), Some((1, "<|im_start|>")));
    assert_eq!(mapped.end_tokens(), [2]);
    assert_eq!(mapped.encode("<|filler|>", false).unwrap(), [600]);
    assert_ne!(mapped.hash(), bare.hash());
    assert!(!mapped.adds_bos());

    write(
        "tokenizer_config.json",
        r#"{"add_bos_token": true, "add_eos_token": true}"#,
    );
    write("config.json", r#"{"eos_token_id": [2, 0]}"#);
    write(
        "chat_template.jinja",
        "{{ messages[0].content }}{{ eos_token }}",
    );
    let added = load().unwrap();
    assert!(added.adds_bos());
    let plain = added.encode("tide", false).unwrap();
    assert_eq!(
        added.encode("tide", true).unwrap(),
        [&[1][..], &plain, &[2]].concat()
    );
    assert_eq!(added.end_tokens(), [0, 2]);
    assert_eq!(added.chat("x").unwrap().unwrap(), "x<|im_end|>");

    for (name, text, wanted) in [
        (
            "tokenizer_config.json",
            "{",
            "tokenizer_config.json: not valid JSON",
        ),
        ("chat_template.jinja", "{% if %}", "line 1"),
        (
            "config.json",
            r#"{"eos_token_id": "x"}"#,
            "config.json: `eos_token_id`",
        ),
        ("tokenizer.json", "[]", "tokenizer.json"),
    ] {
        let kept = std::fs::read(folder.path().join(name)).unwrap();
        write(name, text);
        let error = load().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        std::fs::write(folder.path().join(name), kept).unwrap();
    }
    std::fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    write("tokenizer_config.json", r#"{"chat_template": 3}"#);
    assert!(load().unwrap_err().to_string().contains("`chat_template`"));
    write(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]}"#,
    );
    assert_eq!(load().unwrap().chat("x").unwrap().unwrap(), "d");
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert!(
        load()
            .unwrap_err()
            .to_string()
            .contains("has no tokenizer.json")
    );
}

#[test]
fn smollm2_equals_transformers() {
    let Some(path) = smollm2() else { return };
    let expected = &json_fixture("tokenizers/expected.json")["smollm2-135m-instruct-q4"];
    let metadata = metadata(&path);
    let tokenizer = TextTokenizer::from_gguf(&metadata).unwrap();
    assert_equals_transformers("SmolLM2", &tokenizer, expected);

    assert_eq!(tokenizer.bos(), Some((1, "<|im_start|>")));
    // The file says so, although transformers puts one before every text.
    assert!(!tokenizer.adds_bos());
    assert_eq!(tokenizer.end_tokens(), [2]);
    assert_eq!(tokenizer.vocab_size(), 49_152);
    assert_eq!(
        tokenizer.encode("tide", true).unwrap(),
        tokenizer.encode("tide", false).unwrap()
    );

    // transformers' conversion without the named pre-tokenizer is had by asking for it.
    let stock = TextTokenizer::from_gguf_with_pre(&metadata, "gpt-2").unwrap();
    let differs = expected["differs_without_pre"].as_object().unwrap();
    assert!(!differs.is_empty());
    for (index, string) in strings().iter().enumerate() {
        let ids = differs
            .get(&index.to_string())
            .unwrap_or(&expected["ids"][index]);
        assert_eq!(
            stock.encode(string, false).unwrap(),
            ids_of(ids),
            "{string:?}"
        );
    }
    assert_ne!(stock.hash(), tokenizer.hash());
}
