//! Where a run happens: processor, memory, instruction sets, git state. Read from the system, never required:
//! what cannot be found out is left empty.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and processor family, such as `linux x86_64`.
    pub platform: String,
    /// Processor as `/proc/cpuinfo` names it.
    pub cpu: Option<String>,
    /// Logical cores this process may use.
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Vector instruction sets that decide which kernels run.
    pub isa: Vec<String>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: field(&cpuinfo, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: field(&meminfo, "MemTotal")
                .and_then(kibibytes)
                .map(|kibibytes| kibibytes * 1024),
            isa: isa(field(&cpuinfo, "flags").unwrap_or_default()),
        }
    }
}

const ISA: [&str; 8] = [
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "amx_tile",
];

fn isa(flags: &str) -> Vec<String> {
    let flags: Vec<&str> = flags.split_whitespace().collect();
    ISA.iter()
        .filter(|set| flags.contains(set))
        .map(|set| (*set).to_owned())
        .collect()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn kibibytes(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Peak resident memory of this process so far; 0 where the system does not say.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM").and_then(kibibytes).unwrap_or(0) * 1024
}

/// Lets [`peak_rss_bytes`] start again from what is resident now; without effect where the system cannot.
pub(crate) fn restart_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// State of the git checkout around a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitState {
    /// Commit.
    pub commit: String,
    /// Whether tracked files differ from it.
    pub dirty: bool,
}

/// State of the checkout that holds `folder`; `None` without git or without a checkout.
#[must_use]
pub fn git_state(folder: &Path) -> Option<GitState> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Some(GitState {
        commit: git(&["rev-parse", "HEAD"])?,
        dirty: !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
    })
}
