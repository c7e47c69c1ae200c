//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ripplekv_runner::select::{Limit, Shard};

/// Reproduce KV-cache compression papers on LongBench: one YAML file, from weights to figures.
#[derive(Debug, Parser)]
#[command(name = "ripplekv", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print data, warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run an experiment; the same command again continues it
    Run(RunArguments),
    /// Show what `run` would do: cells, prompts, tokens, what is done and what is left
    Plan(PlanArguments),
    /// Find everything that can be wrong before a model loads
    Check(CheckArguments),
    /// Measure the sensitivity profile of the spec's models, and nothing else
    Profile(StageArguments),
    /// Measure what compressing single layers for real does, and nothing else
    Damage(StageArguments),
    /// List what can be named in a spec
    Ls(LsArguments),
    /// Show the prompt of one record
    Show(ShowArguments),
    /// Make tables and figures from results folders
    Report(ReportArguments),
    /// Say in words how two sets of stored results differ
    Compare(CompareArguments),
    /// Write stored answers as another program's prediction files
    Export(ExportArguments),
    /// Get a model or a pack
    Fetch(FetchArguments),
    /// Score prediction files in LongBench's format; needs no model
    Score(ScoreArguments),
    /// Measure speed and memory on given prompts, beside a peer's measurements where given
    Bench(BenchArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder
        dir: PathBuf,
    },
    /// Print the JSON Schema of the spec
    #[command(hide = true)]
    Schema,
    /// Print a generated table or page of the documentation
    #[command(hide = true)]
    Docs {
        /// Which
        page: DocsPage,
    },
}

/// Which part of an experiment.
#[derive(Debug, Clone, Args)]
pub(crate) struct SelectionArguments {
    /// Change a key of the spec, such as tasks.limit=10 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Take only some cells: model=, task=, method= or budget= with comma-separated patterns (repeatable: all must hold)
    #[arg(long, value_name = "KEY=PATTERNS")]
    pub(crate) only: Vec<String>,
    /// Take only some fitting records of each task: 10, 10-20 (places from 1) or 5%
    #[arg(long, value_parser = Limit::parse)]
    pub(crate) limit: Option<Limit>,
    /// Take part i of n of the work
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    pub(crate) shard: Option<Shard>,
    /// Folder of the pack, instead of the spec's
    #[arg(long, value_name = "DIR")]
    pub(crate) pack: Option<PathBuf>,
    /// Results folder, instead of results/<name>. The report of results/<name> goes to reports/<name>, that of any
    /// other folder into its own report/
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Where to compute.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachineArguments {
    /// Threads to use; default: all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Device: cpu, cuda:0 or metal
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    /// The experiment (YAML)
    pub(crate) spec: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// Run failed samples again
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Only show what would be done (the same as `plan`)
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StageArguments {
    /// The experiment (YAML)
    pub(crate) spec: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArguments {
    /// The experiment (YAML)
    pub(crate) spec: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    /// Print the resolved spec and all cells as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArguments {
    /// Experiments (YAML)
    #[arg(required = true)]
    pub(crate) specs: Vec<PathBuf>,
    /// Change a key of the specs (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Folder of the pack, instead of the specs'
    #[arg(long, value_name = "DIR")]
    pub(crate) pack: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    Models,
    Tasks,
    Methods,
    Scorers,
    Allocators,
    Figures,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LsArguments {
    /// What to list
    pub(crate) what: Listing,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArguments {
    /// Task name
    pub(crate) task: String,
    /// Place of the record in its file, from 0, or its id
    #[arg(long, default_value = "0")]
    pub(crate) sample: String,
    /// Take pack, protocol and model from this experiment
    #[arg(long, value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,
    /// Folder of the pack
    #[arg(long, value_name = "DIR")]
    pub(crate) pack: Option<PathBuf>,
    /// Count tokens and truncate as this model does (a name, or a path with a '/' or '.gguf' in it)
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Print the whole prompt, and nothing else, on standard output
    #[arg(long)]
    pub(crate) prompt: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArguments {
    /// Results folders, such as results/quickstart
    #[arg(required = true)]
    pub(crate) dirs: Vec<PathBuf>,
    /// Report folder. Default: reports/<name> where the first results folder is results/<name> below the current
    /// folder, else report/ in that results folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Most prompts of each task that get an HTML page of their own, the worst first. Default: 50
    #[arg(long, value_name = "N")]
    pub(crate) prompt_pages: Option<usize>,
    /// Show the interval of every score in the main table, not of the average alone
    #[arg(long)]
    pub(crate) intervals: bool,
    /// Method that differences are measured against, by its name in the tables. Default: full, and snapkv for a KL
    #[arg(long, value_name = "METHOD")]
    pub(crate) baseline: Option<String>,
    /// Print the rows of the main table as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryMode {
    /// The whole prompt was compressed
    Aware,
    /// The context was compressed before the question was seen
    Agnostic,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Two methods:               ripplekv compare results/x:ripplekv results/x:snapkv
One against every other:   ripplekv compare results/x:ripplekv results/x
Before and after a change: ripplekv compare results/after results/before

Differences are A minus B, over the samples that both have; every task weighs the same. A difference is called \
detectable when its 95% bootstrap interval leaves out zero and the sign-flip test gives a p of at most 0.05 after \
Holm's correction. Exit code 4 where nothing is selected or shared."
)]
pub(crate) struct CompareArguments {
    /// First side: a results folder, or DIR:METHOD or DIR:METHOD@BUDGET
    #[arg(value_name = "A")]
    pub(crate) left: String,
    /// Second side; :METHOD takes it from the folder of A
    #[arg(value_name = "B")]
    pub(crate) right: String,
    /// Only this budget, such as 10% (repeatable); methods without a budget stay
    #[arg(long = "budget", value_name = "BUDGET")]
    pub(crate) budgets: Vec<String>,
    /// Only this query mode
    #[arg(long)]
    pub(crate) query: Option<QueryMode>,
    /// Show every task
    #[arg(long, conflicts_with = "json")]
    pub(crate) tasks: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FetchArguments {
    /// A model name, `longbench` or `study` (packs), or `jieba` (the dictionary for Chinese scores)
    pub(crate) name: String,
    /// Folder for a pack, instead of datasets/<name>
    #[arg(long, visible_alias = "to", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Take longbench from this folder or archive (its data.zip) instead of the network; the two
    /// config files lie in it or in config/ beside it
    #[arg(long, value_name = "DIR|ZIP")]
    pub(crate) from: Option<PathBuf>,
    /// Accept a part of longbench's tasks and records
    #[arg(long)]
    pub(crate) partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// pred/<model>/<task>.jsonl as the authors' eval.py reads it
    Longbench,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The model's folder is its name where it has one cell for each task, else <model>__<method>__<budget>. \
LongBench-E goes to pred_e/. Failed samples are left out, with a warning."
)]
pub(crate) struct ExportArguments {
    /// The form of the files
    pub(crate) format: ExportFormat,
    /// Folder to write below
    pub(crate) dir: PathBuf,
    /// Results folders, such as results/quickstart
    #[arg(long, value_name = "RESULTS", required = true, num_args = 1..)]
    pub(crate) from: Vec<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ScoreArguments {
    /// Prediction files: JSON lines with pred, answers, all_classes and length
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The task of all files; default: the file's name, or the field `dataset`
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Print one JSON object per prediction instead of the table
    #[arg(long, conflicts_with = "json")]
    pub(crate) per_sample: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// LongBench-E: scores by length bucket
    #[arg(long)]
    pub(crate) e: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchPart {
    /// Prefill and decoding of one row, and reading memory
    Forward,
    /// Causal attention of one layer by itself
    Attention,
    /// 16 cells: full, and five methods at three budgets
    Grid,
    /// The sensitivity profile of one sample and of four together, with signals and control and without
    Profile,
}

impl std::fmt::Display for BenchPart {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArguments {
    /// Prompts of exact lengths, as tools/peers/bench_peers.py writes them; without them nothing is measured, and what
    /// --out holds is shown
    #[arg(long, value_name = "FILE", required_unless_present = "out")]
    pub(crate) prompts: Option<PathBuf>,
    /// The peer's measurements, by the same program
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
    /// Keep measurements in this file; what it holds already stays and is shown too
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Parts to measure
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [BenchPart::Forward, BenchPart::Attention, BenchPart::Grid, BenchPart::Profile],
    )]
    pub(crate) parts: Vec<BenchPart>,
    /// Prompt lengths; default: all for forward, 4096 for grid, 2048 for profile
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    pub(crate) lengths: Vec<usize>,
    /// Runs of each prefill
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    pub(crate) repeats: usize,
    /// Tokens to generate
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) new_tokens: usize,
    /// The model: a name, or a path with a '/' or '.gguf' in it
    #[arg(long, default_value = "smollm2-135m-instruct-q4")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// Print the lines as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure one part at one length in this process
    #[arg(long, hide = true, value_parser = parse_child)]
    pub(crate) child: Option<(BenchPart, usize)>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_child(text: &str) -> Result<(BenchPart, usize), String> {
    let (part, tokens) = text.split_once(':').ok_or("must be PART:TOKENS")?;
    let tokens = tokens.parse().map_err(|_| "must be PART:TOKENS")?;
    Ok((BenchPart::from_str(part, true)?, tokens))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocsPage {
    Cli,
    Models,
    Tasks,
    Methods,
    Spec,
    ExitCodes,
    /// Columns of cells.csv
    Cells,
    /// Columns of samples.csv
    Samples,
}
