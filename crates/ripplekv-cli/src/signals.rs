//! Ctrl-C and its kin: the first finishes the prompt in hand, the second ends the program at once.
//! USR1 is what Slurm sends before it kills a job.

use std::time::Duration;

use ripplekv_runner::exit;
use ripplekv_runner::run::StopSignal;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How soon the first signal is answered.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// Connects the signals with the flag, and answers the first one through `say`.
pub(crate) fn listen(
    stop: &StopSignal,
    say: impl FnOnce(&str) + Send + 'static,
) -> std::io::Result<()> {
    for signal in signals() {
        // In this order: the flag is tested before it is set, so only a second signal ends the program.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(exit::INCOMPLETE),
            stop.flag(),
        )?;
        signal_hook::flag::register(signal, stop.flag())?;
    }
    // A handler may not write; a thread that looks at the flag may.
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while !stop.is_set() {
                std::thread::sleep(ANSWER_WITHIN);
            }
            say("finishing the prompt in hand; Ctrl-C again stops at once");
        })?;
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
