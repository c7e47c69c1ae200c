//! Ctrl-C and its kin: the first finishes the prompt in hand, the second ends the program at once.
//! USR1 is what Slurm sends before it kills a job.

use ripplekv_runner::exit;
use ripplekv_runner::run::StopSignal;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Connects the signals with the flag.
pub(crate) fn listen(stop: &StopSignal) -> std::io::Result<()> {
    for signal in signals() {
        // In this order: the flag is tested before it is set, so only a second signal ends the program.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(exit::INCOMPLETE),
            stop.flag(),
        )?;
        signal_hook::flag::register(signal, stop.flag())?;
    }
    Ok(())
}

#[cfg(unix)]
fn signals() -> Vec<i32> {
    vec![SIGINT, SIGTERM, signal_hook::consts::SIGUSR1]
}

#[cfg(not(unix))]
fn signals() -> Vec<i32> {
    vec![SIGINT, SIGTERM]
}
