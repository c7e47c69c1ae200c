//! `ripplekv damage`: profile and damage of every model of a spec, their report, and no cells.

use crate::arguments::StageArguments;
use crate::commands::run::Work;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn damage(arguments: &StageArguments, output: Output) -> Result<u8, Failure> {
    let work = Work {
        spec: &arguments.spec,
        selection: &arguments.selection,
        machine: &arguments.machine,
        retry_failed: false,
        only_stages: true,
    };
    work.run(output)
}
