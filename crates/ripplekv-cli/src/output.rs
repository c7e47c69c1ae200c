//! Standard output for data, standard error for everything else.
//! A reader that closes standard output early ends the program with success.

use std::io::{IsTerminal, Write};

/// How much to say, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
    verbose: u8,
    colour: bool,
}

impl Output {
    pub(crate) fn new(quiet: bool, verbose: u8) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            quiet,
            verbose,
            colour: std::io::stderr().is_terminal() && !no_colour,
        }
    }

    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    pub(crate) fn is_verbose(self) -> bool {
        self.verbose > 0
    }

    /// Data, as it is.
    pub(crate) fn data(self, text: &str) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Data, with a newline behind it.
    pub(crate) fn line(self, text: &str) -> std::io::Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// Something worth knowing.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Something only worth knowing with `-v`.
    pub(crate) fn detail(self, text: &str) {
        if self.is_verbose() {
            say(text);
        }
    }

    pub(crate) fn warning(self, text: &str) {
        say(&format!("{} {text}", self.paint("warning:", "33")));
    }

    pub(crate) fn error(self, text: &str) {
        say(&format!("{} {text}", self.paint("error:", "31")));
    }

    fn paint(self, text: &str, code: &str) -> String {
        if self.colour {
            format!("\u{1b}[1;{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Writes to standard error; there is nowhere to tell that it failed.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
