//! `ripplekv show`: what a model reads for one record.

use std::path::PathBuf;

use ripplekv_runner::RunnerError;
use ripplekv_runner::cell::ResolvedModel;
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::spec::{ProtocolSpec, Spec};
use ripplekv_tasks::{
    Pack, PromptOptions, Record, TaskInfo, find_task, official_max_context, prepare, render,
};

use crate::arguments::ShowArguments;
use crate::commands::experiment::pack_dir;
use crate::failure::Failure;
use crate::output::Output;
use crate::{packs, wiring};

pub(crate) fn show(arguments: &ShowArguments, output: Output) -> Result<(), Failure> {
    let spec = arguments
        .spec
        .as_ref()
        .map(|file| Spec::load(file, &[]))
        .transpose()?;
    let info = find_task(&arguments.task).map_err(|error| Failure::Data(error.to_string()))?;
    let folder = match (&spec, &arguments.pack) {
        (_, Some(folder)) => folder.clone(),
        (Some(spec), None) => pack_dir(spec, None)?,
        (None, None) => packs::find(info.pack_name(), None),
    };
    let pack = Pack::open(&folder)?;
    let (place, record) = find_record(&pack, info, &arguments.sample)?;
    let model = model(arguments, spec.as_ref(), &folder)?;
    let protocol = spec.map(|spec| spec.protocol).unwrap_or_default();
    let mut facts = vec![
        format!("task: {info} ({}, {})", info.category, info.metric),
        format!("record: {place}, id {}", record.id),
        format!("answers: {}", record.answers.join(" | ")),
    ];
    let text = match model {
        Some(model) => tokenised(&pack, info, &record, &model, &protocol, &mut facts)?,
        None => {
            facts.push("tokens: not counted; --model NAME counts them".to_owned());
            render(pack.template(info)?, &record)
                .map_err(|error| Failure::Data(error.to_string()))?
        }
    };
    if arguments.prompt {
        for fact in facts {
            output.detail(&fact);
        }
        output.data(&text)?;
        return Ok(());
    }
    for fact in facts {
        output.line(&fact)?;
    }
    output.line(&format!("prompt: {} characters", text.chars().count()))?;
    output.line(&shortened(&text))?;
    Ok(())
}

/// The record at a place, or with an id.
fn find_record(pack: &Pack, info: &TaskInfo, sample: &str) -> Result<(usize, Record), Failure> {
    let place: Option<usize> = sample.parse().ok();
    let mut count = 0;
    for (index, record) in pack.records(info)?.enumerate() {
        let record = record?;
        count = index + 1;
        if place == Some(index) || record.id == sample {
            return Ok((index, record));
        }
    }
    Err(Failure::Data(format!(
        "{}: no record '{sample}' (the file has {count})\nhint: give a place from 0 to {}, or an id",
        pack.record_path(info).display(),
        count.max(1) - 1
    )))
}

fn model(
    arguments: &ShowArguments,
    spec: Option<&Spec>,
    folder: &std::path::Path,
) -> Result<Option<ResolvedModel>, Failure> {
    if let Some(name) = &arguments.model {
        return wiring::named_model(name).map(Some);
    }
    let Some(spec) = spec else { return Ok(None) };
    let plan = Plan::new(
        spec,
        &wiring::catalog(),
        &PathBuf::from(folder),
        PlanOptions::default(),
    )?;
    Ok(plan.models.into_iter().next())
}

fn tokenised(
    pack: &Pack,
    info: &TaskInfo,
    record: &Record,
    model: &ResolvedModel,
    protocol: &ProtocolSpec,
    facts: &mut Vec<String>,
) -> Result<String, Failure> {
    let failed = |source| RunnerError::Model {
        model: model.name.clone(),
        source,
    };
    let loader = wiring::loader("cpu")?;
    let tokenizer = loader.tokenizer(model).map_err(failed)?;
    let shape = loader.shape(model).map_err(failed)?;
    let options = PromptOptions {
        max_context: protocol
            .max_context
            .unwrap_or_else(|| official_max_context(shape.context_length)),
        chat_template: protocol.chat_template,
        clean_up_spaces: protocol.clean_up_spaces,
        bos: protocol.bos,
    };
    let prompt = prepare(
        info,
        pack.template(info)?,
        record,
        tokenizer.as_ref(),
        &options,
    )?;
    facts.push(format!("model: {}", model.name));
    facts.push(format!(
        "tokens: {} (rendered {}, cut at {}, removed {} from the middle)",
        prompt.ids.len(),
        prompt.rendered_tokens,
        options.max_context,
        prompt.removed_tokens
    ));
    facts.push(format!(
        "chat template: {}; new tokens: at most {}",
        if prompt.chat_applied {
            "applied"
        } else {
            "not applied"
        },
        pack.max_new_tokens(info)?
    ));
    Ok(prompt.text)
}

/// The start and the end of a long text.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 600;
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= 2 * SHOWN {
        return text.to_owned();
    }
    let start: String = letters[..SHOWN].iter().collect();
    let end: String = letters[letters.len() - SHOWN..].iter().collect();
    format!(
        "{start}\n[... {} characters; --prompt prints all ...]\n{end}",
        letters.len() - 2 * SHOWN
    )
}
