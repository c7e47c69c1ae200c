//! One file a verb.

mod bench;
mod check;
mod compare;
mod completions;
mod damage;
mod docs;
mod experiment;
mod export;
mod fetch;
mod fetch_longbench;
mod ls;
mod memory;
mod plan;
mod profile;
mod report;
mod run;
mod schema;
mod score;
mod show;

use ripplekv_runner::exit;

use crate::arguments::{Cli, Verb};
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

/// Does what was asked and gives the exit code.
pub(crate) fn execute(arguments: &Cli, output: &Output) -> Result<u8, Failure> {
    if wiring::is_fake() {
        output.warning("RIPPLEKV_FAKE_ENGINE is set: methods, models and answers are made up");
    }
    match &arguments.verb {
        Verb::Run(arguments) if arguments.dry_run => {
            plan::plan(&arguments.spec, &arguments.selection, false, *output)
        }
        Verb::Run(arguments) => run::run(arguments, *output),
        Verb::Plan(arguments) => plan::plan(
            &arguments.spec,
            &arguments.selection,
            arguments.json,
            *output,
        ),
        Verb::Check(arguments) => check::check(arguments, *output),
        Verb::Profile(arguments) => profile::profile(arguments, *output),
        Verb::Damage(arguments) => damage::damage(arguments, *output),
        Verb::Ls(arguments) => done(ls::ls(arguments, *output)),
        Verb::Show(arguments) => done(show::show(arguments, *output)),
        Verb::Report(arguments) => done(report::report(arguments, *output)),
        Verb::Compare(arguments) => done(compare::compare(arguments, *output)),
        Verb::Export(arguments) => done(export::export(arguments, *output)),
        Verb::Fetch(arguments) => done(fetch::fetch(arguments, *output)),
        Verb::Score(arguments) => done(score::score(arguments, *output)),
        Verb::Bench(arguments) => bench::bench(arguments, *output),
        Verb::Completions { shell } => done(completions::completions(*shell, *output)),
        Verb::Man { dir } => done(completions::man(dir, *output)),
        Verb::Schema => done(schema::schema(*output)),
        Verb::Docs { page } => done(docs::docs(*page, *output)),
    }
}

fn done(result: Result<(), Failure>) -> Result<u8, Failure> {
    result.map(|()| exit::DONE)
}
