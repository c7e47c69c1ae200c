//! Reports from made-up results folders: sound ones, holes, cut lines, mixed protocols, a single sample.

mod bad_input;
mod comparing;
mod figures;
mod report;
mod results_folder;
