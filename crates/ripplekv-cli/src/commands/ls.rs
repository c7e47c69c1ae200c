//! `ripplekv ls`: what can be named in a spec.

use crate::arguments::LsArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::tables::listing;

pub(crate) fn ls(arguments: &LsArguments, output: Output) -> Result<(), Failure> {
    let rows = listing(arguments.what);
    if arguments.json {
        output.line(&format!("{:#}", rows.json()))?;
    } else {
        output.data(&rows.terminal())?;
    }
    Ok(())
}
