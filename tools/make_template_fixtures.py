"""Chat templates of our own, rendered by transformers, for the minijinja side to equal.

    python tools/make_template_fixtures.py

Writes crates/ripplekv-model/tests/fixtures/templates.json. The templates use what published ones
use, none is one. Of the pip-packaged SmolLM2's template only rendered outputs are stored as hashes.
"""

import datetime as datetime_module
import hashlib
import json
import tempfile

import jinja2
import transformers
from gguf import GGUFReader
from transformers.utils import chat_template_utils

from fixture_common import MODEL_FIXTURES, smollm2_folder

NOW = "2026-03-07T09:05:03"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

USER = [{"role": "user", "content": "  What is the tide at nine?\n"}]
SYSTEM = [{"role": "system", "content": "You keep the logbook."}, *USER]
LONG = [
    *SYSTEM,
    {"role": "assistant", "content": "<think>count boats</think>Low, and rising. "},
    {"role": "user", "content": "And \"tomorrow\"? <b>é</b> 'quoted' \\ 😀"},
]
TWO_USERS = [*USER, *USER]
CONVERSATIONS = {"user": USER, "system": SYSTEM, "long": LONG, "two_users": TWO_USERS}

TEMPLATES = {
    "plain": "{% for message in messages %}{{ message.role }}: {{ message['content'] }}\n{% endfor %}",
    "system_default": """{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|sys|>Be brief.<|end|>\\n' }}
{% endif %}
{{ '<|' + message['role'] + '|>\\n' + message['content'] | trim + '<|end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|assistant|>\\n' }}
{% endif %}
""",
    "alternation": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set system = messages[0]['content'] | trim + '\\n\\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set system = '' -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('roles must alternate, but message ' ~ loop.index ~ ' is ' ~ message.role) -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {{- '[Q] ' ~ (system if loop.first else '') ~ message['content'].strip() ~ ' [/Q]' -}}
    {%- elif message['role'] == 'assistant' -%}
        {{- ' ' + message['content'].rstrip() + eos_token -}}
    {%- else -%}
        {{- raise_exception('unknown role: ' + message['role']) -}}
    {%- endif -%}
{%- endfor -%}
""",
    "dates_and_tools": """{%- if tools is not defined or tools is none %}{% set tools = none %}{% endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "1 Jan 2000" %}
    {%- endif %}
{%- endif %}
{{- bos_token }}Today: {{ date_string }} ({{ strftime_now("%A, %H:%M:%S, day %j, %Y-%m-%d, 100%%") }})
{% if tools is not none %}tools{% else %}no tools{% endif %}

{%- for message in messages %}

<{{ message.role }}>{{ message.content | trim }}</{{ message.role }}>
{%- endfor %}
{%- if add_generation_prompt %}
<assistant>
{%- endif %}
""",
    "json": """{{ messages | tojson }}
{{ messages | tojson(indent=2) }}
{{ {'b': 1, 'a': [1.0, 2.5, 1e-7, 1e20, -0.0, true, none, '</é"\\n\\t'], 'n': {}, 'e': []} | tojson }}
{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=[',', ':']) }}
{{ 'plain' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }}
""",
    "generation": """{% for message in messages %}
{% if message.role == 'assistant' %}
{%- generation -%}
A: {{ message.content }}
{%- endgeneration %}

{% else %}
{{ message.role | upper }}: {{ message.content | trim }}
{% generation %}{% endgeneration %}
{% endif %}
{% endfor %}
""",
    "namespace": """{%- set ns = namespace(found=false, text='', count=0, last=-1) %}
{%- for message in messages %}
    {%- set ns.count = ns.count + 1 %}
    {%- if message.role == 'system' and not ns.found %}
        {%- set ns.found = true %}{% set ns.text = message.content %}
    {%- endif %}
    {%- if message.role == "user" %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{{- 'system: ' + ns.text + '\\n' if ns.found else 'no system\\n' }}
{{- ns.count }} messages, last question at {{ ns.last }}, found {{ ns.found }}, {{ none }}
{%- for message in messages[::-1] %}
{{ loop.revindex }}/{{ loop.length }} {{ message.role }}{{ ',' if not loop.last else '.' }}
{%- endfor %}
""",
    "string_methods": """{%- for message in messages %}
{%- set content = message.content %}
{%- if content is string and '</think>' in content %}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{ content.strip() }}|{{ content.strip().startswith('What') }}|{{ content.endswith('\\n') }}|
{{- content.replace('tide', 'wind') | trim }}|{{ content.split() | length }}|{{ content.upper() | trim }}|
{{- message.role.title() }}|{{ content.strip().split(' ')[:2] | join('-') }}|{{ content.find('tide') }}
{%- endfor %}
""",
    "tests_and_filters": """{%- set roles = messages | map(attribute='role') | list %}
{{- roles | join(',') }} {{ roles | unique | list | length }} {{ 'system' in roles }}
{{- ' ' ~ (messages | selectattr('role', 'equalto', 'user') | list | length) }}
{{- ' ' ~ (messages | rejectattr('role', 'equalto', 'user') | map(attribute='content') | first | default('none', true)) }}
{% if messages is iterable and messages is not string and messages is not mapping %}list{% endif %}
{% if messages[0] is mapping and messages[0].name is not defined %}mapping without name{% endif %}
{{ messages[0].name | default('anonymous') }} {{ (messages | last).role }} {{ messages[-1]['role'] }}
{% for key, value in messages[0].items() %}{{ key }}={{ value | length }};{% endfor %}

{% for key in messages[0] %}{{ key }},{% endfor %} {{ messages[0].get('name', 'x') }}
{% macro line(text, mark='*') %}{{ mark }} {{ text | trim }}{% endmacro %}
{{ line(messages[0].content) }} {{ line('b', mark='-') }}
{{ [1, 2] + [3] }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 'ab' * 2 }} {{ true }} {{ 1.0 }}
""",
    "loop_controls": """{% for message in messages %}
{% if message.role == 'system' %}{% continue %}{% endif %}
{% if loop.index > 2 %}{% break %}{% endif %}
{{ loop.index }}{{ message.role }}
{% else %}
empty
{% endfor %}
  {# a comment #}
  {% if true %}
  indented
  {% endif %}
kept  {%- if true %} trimmed {% endif +%}

end
""",
    "windows_lines": "{% if true %}\r\nfirst\r\n{% endif %}\r\nsecond\r\n",
    "undefined": "{{ missing }}[{{ messages[0].missing }}]{{ 'yes' if missing else 'no' }}{% if missing is defined %}x{% endif %}",
    "undefined_attribute": "{{ missing.attribute }}",
    "always_fails": "{{ raise_exception('this template refuses: ' + messages[0].role) }}",
}


class FixedDatetime(datetime_module.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(NOW)


def render(template: str, messages, add_generation_prompt: bool) -> dict:
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[messages],
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            **SPECIAL,
        )
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error)}
    return {"text": rendered[0]}


def smollm2_cases() -> list:
    with tempfile.TemporaryDirectory() as temporary:
        folder, name = smollm2_folder(temporary)
        template = GGUFReader(f"{folder}/{name}").fields["tokenizer.chat_template"].contents()
    cases = []
    for conversation, messages in CONVERSATIONS.items():
        for prompt in (False, True):
            text = render(template, messages, prompt)["text"]
            cases.append(
                {
                    "conversation": conversation,
                    "add_generation_prompt": prompt,
                    "sha256": hashlib.sha256(text.encode()).hexdigest(),
                    "characters": len(text),
                }
            )
    return cases


def main():
    chat_template_utils.datetime = FixedDatetime
    cases = [
        {
            "template": name,
            "conversation": conversation,
            "add_generation_prompt": prompt,
            **render(template, messages, prompt),
        }
        for name, template in TEMPLATES.items()
        for conversation, messages in CONVERSATIONS.items()
        for prompt in (False, True)
    ]
    document = {
        "made_by": {"transformers": transformers.__version__, "jinja2": jinja2.__version__},
        "now": NOW,
        "special": SPECIAL,
        "conversations": CONVERSATIONS,
        "templates": TEMPLATES,
        "cases": cases,
        "smollm2": smollm2_cases(),
    }
    path = MODEL_FIXTURES / "templates.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "of them errors")
    for case in cases:
        if case["conversation"] == "long" and case["add_generation_prompt"]:
            print("=====", case["template"], case.get("error", ""))
            print(case.get("text"))


if __name__ == "__main__":
    main()
