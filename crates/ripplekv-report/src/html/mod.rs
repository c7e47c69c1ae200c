//! The report as HTML: one folder that opens without a server or a network. `index.html`, a page per cell, a list of prompts
//! per group, and a page per prompt for the worst of each task.
//!
//! Templates are minijinja files in `templates/`, escaped by their `.html` names; whatever comes from the model, the data or
//! the spec also passes [`text::clean`] first. The pages read without JavaScript; `report.js` adds sorting, filtering and the
//! marks of kept tokens. To add a page: one template, one file here that makes its context.

mod cell_page;
mod index;
mod names;
mod prompt_page;
mod rank;
mod table;
mod text;

use std::path::PathBuf;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

pub(crate) use index::{Part, Section};

use crate::error::ReportError;
use crate::files::Output;
use crate::group::Group;
use crate::options::ReportOptions;
use crate::read::Results;
use crate::shown::{TaskRows, TaskTexts};
use names::GroupNames;
use rank::paged;

const TEMPLATES: &[(&str, &str)] = &[
    ("base.html", include_str!("templates/base.html")),
    ("table.html", include_str!("templates/table.html")),
    ("index.html", include_str!("templates/index.html")),
    ("cell.html", include_str!("templates/cell.html")),
    ("prompts.html", include_str!("templates/prompts.html")),
    ("prompt.html", include_str!("templates/prompt.html")),
];

const ASSETS: &[(&str, &str)] = &[
    ("assets/report.css", include_str!("templates/report.css")),
    ("assets/report.js", include_str!("templates/report.js")),
];

/// What the pages are made from.
pub(crate) struct Site<'a> {
    pub(crate) folders: &'a [PathBuf],
    pub(crate) results: &'a Results,
    pub(crate) groups: &'a [Group],
    pub(crate) options: &'a ReportOptions,
    pub(crate) warnings: &'a [String],
    pub(crate) what_was_run: &'a [String],
    /// Tables and figures, those of `groups` first, in their order.
    pub(crate) sections: &'a [Section],
}

/// Writes all pages.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(site: &Site<'_>, output: &mut Output) -> Result<(), ReportError> {
    let pages = Pages::new()?;
    for (name, contents) in ASSETS {
        output.write(name, contents.as_bytes())?;
    }
    let names: Vec<GroupNames> = site
        .groups
        .iter()
        .map(|group| GroupNames::new(group, site))
        .collect();
    let context = index::context(site, &names);
    pages.write("index.html", "index.html", &context, output)?;
    for (group, names) in site.groups.iter().zip(&names) {
        let prompts = prompt_page::list(group, names, site);
        pages.write("prompts.html", &names.list, &prompts, output)?;
        for task in &group.tasks {
            let rows = TaskRows::new(group, &task.name, site.results);
            for row in &rows.rows {
                let context = cell_page::context(group, names, row, &rows);
                pages.write(
                    "cell.html",
                    names.cell(&row.summary.cell.key),
                    &context,
                    output,
                )?;
            }
            let worst = paged(&rows, site.options.prompt_pages);
            let is_worst = |sample: &str| worst.iter().any(|prompt| prompt.sample == sample);
            let texts = TaskTexts::read(site.folders, &group.model, &task.name, is_worst);
            for place in 0..worst.len() {
                let page = prompt_page::Page {
                    group,
                    names,
                    task: &task.name,
                    rows: &rows,
                    worst: &worst,
                    place,
                    texts: &texts,
                };
                let context = prompt_page::context(&page)?;
                let name = names.prompt(&task.name, worst[place].sample);
                pages.write("prompt.html", name, &context, output)?;
            }
        }
    }
    Ok(())
}

/// The templates, ready.
struct Pages(Environment<'static>);

impl Pages {
    fn new() -> Result<Pages, ReportError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| failed("syntax", &error))?);
        for (name, source) in TEMPLATES {
            environment
                .add_template(name, source)
                .map_err(|error| failed(name, &error))?;
        }
        Ok(Pages(environment))
    }

    /// Renders a page; `name` has the folders that its links climb out of.
    fn write<T: Serialize>(
        &self,
        template: &str,
        name: &str,
        context: &T,
        output: &mut Output,
    ) -> Result<(), ReportError> {
        let mut context = serde_json::to_value(context).map_err(|error| ReportError::Page {
            page: name.to_owned(),
            message: error.to_string(),
        })?;
        text::clean_all(&mut context);
        if let Value::Object(fields) = &mut context {
            let root = "../".repeat(name.matches('/').count());
            fields.insert("root".to_owned(), Value::String(root));
        }
        let rendered = self
            .0
            .get_template(template)
            .and_then(|template| template.render(Serde(&context)))
            .map_err(|error| failed(name, &error))?;
        output.write(name, rendered.as_bytes())
    }
}

fn failed(page: &str, error: &minijinja::Error) -> ReportError {
    ReportError::Page {
        page: page.to_owned(),
        message: format!("{error:#}"),
    }
}
