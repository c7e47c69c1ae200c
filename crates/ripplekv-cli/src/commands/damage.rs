//! `ripplekv damage`: what compressing single layers for real does, and nothing else.

use crate::arguments::StageArguments;
use crate::commands::experiment;
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

pub(crate) fn damage(arguments: &StageArguments, _output: Output) -> Result<u8, Failure> {
    wiring::set_threads(arguments.machine.threads)?;
    let catalog = wiring::catalog();
    let plan = experiment::plan(&arguments.spec, &arguments.selection, &catalog)?;
    if plan.damage.is_none() {
        return Err(Failure::Data(format!(
            "{}: the key 'damage' is missing\nhint: write damage: {{budgets: [10%], scorer: snapkv}}",
            arguments.spec.display()
        )));
    }
    Err(Failure::Data("the damage stage is not wired".to_owned()))
}
