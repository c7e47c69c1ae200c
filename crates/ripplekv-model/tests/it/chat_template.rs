//! Rendered conversations equal transformers' for templates of our own and for SmolLM2's.

use std::fs::File;

use candle_core::quantized::gguf_file::Content;
use ripplekv_model::chat_template::{ChatTemplate, Message, SpecialTexts, TemplateError};
use ripplekv_model::tokenizer::TextTokenizer;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{json_fixture, smollm2};

fn conversation(fixture: &Value, name: &str) -> Vec<Message> {
    fixture["conversations"][name]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| Message {
            role: message["role"].as_str().unwrap().to_owned(),
            content: message["content"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let fixture = json_fixture("templates.json");
    let special = SpecialTexts {
        bos_token: Some(fixture["special"]["bos_token"].as_str().unwrap().to_owned()),
        eos_token: Some(fixture["special"]["eos_token"].as_str().unwrap().to_owned()),
        ..SpecialTexts::default()
    };
    let mut wrong = Vec::new();
    let cases = fixture["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 112);
    for case in cases {
        let name = case["template"].as_str().unwrap();
        let source = fixture["templates"][name].as_str().unwrap();
        let now = fixture["now"].as_str().unwrap();
        let template = ChatTemplate::new_at(source, special.clone(), now)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let messages = conversation(&fixture, case["conversation"].as_str().unwrap());
        let prompt = case["add_generation_prompt"].as_bool().unwrap();
        match (template.render(&messages, prompt), case["text"].as_str()) {
            (Ok(text), Some(expected)) if text == expected => {}
            (Err(TemplateError::Refused { message }), None) if message == case["error"] => {}
            // Jinja's own errors have other words; that it is one must agree.
            (Err(TemplateError::Render { .. }), None) if name == "undefined_attribute" => {}
            (found, _) => wrong.push(format!("{case:#}\nfound {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn smollm2_renders_as_transformers_renders_it() {
    let Some(path) = smollm2() else { return };
    let fixture = json_fixture("templates.json");
    let content = Content::read(&mut File::open(path).unwrap()).unwrap();
    let tokenizer = TextTokenizer::from_gguf(&content.metadata).unwrap();
    let template = tokenizer.template().unwrap();
    for case in fixture["smollm2"].as_array().unwrap() {
        let messages = conversation(&fixture, case["conversation"].as_str().unwrap());
        let prompt = case["add_generation_prompt"].as_bool().unwrap();
        let text = template.render(&messages, prompt).unwrap();
        assert_eq!(
            text.chars().count() as u64,
            case["characters"].as_u64().unwrap()
        );
        let digest: String = Sha256::digest(text.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(digest, case["sha256"].as_str().unwrap(), "{text:?}");
    }
    let user = &conversation(&fixture, "user")[0];
    let by_chat = tokenizer.chat(&user.content).unwrap().unwrap();
    assert_eq!(
        by_chat,
        template.render(std::slice::from_ref(user), true).unwrap()
    );
    assert_eq!(tokenizer.template_hash(), Some(template.hash()));
}
