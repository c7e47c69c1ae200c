//! `cells` and `samples` as CSV and Parquet: the documented columns, every row, the same values in both.

use std::fs;
use std::path::Path;

use parquet::basic::{LogicalType, Type as Physical};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use ripplekv_report::{CELL_COLUMNS, ColumnInfo, ColumnKind, SAMPLE_COLUMNS, write_report};
use tempfile::TempDir;

use crate::results_folder::Folder;

/// Name, documented columns and number of rows of each frame of a folder.
fn frames(folder: &Folder) -> [(&'static str, &'static [ColumnInfo], usize); 2] {
    let cells = folder.cells().len();
    [
        ("cells", CELL_COLUMNS, cells),
        ("samples", SAMPLE_COLUMNS, cells * folder.samples),
    ]
}

/// A report of results in which some numbers and texts are missing.
fn written(folder: &Folder) -> TempDir {
    let (results, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    folder.write_with(results.path(), |_, records| {
        records[0].score = None;
        records[0].error = Some("out of memory, \"quoted\"\nand a second line".to_owned());
        records[1].output = "\u{6a21}\u{578b}; a \u{2028} b".to_owned();
        records[2].answer_kl = Some(0.1 + 0.2);
    });
    write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    out
}

fn csv_rows(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let texts = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
    let header = texts(reader.headers().unwrap());
    let rows = reader
        .records()
        .map(|record| texts(&record.unwrap()))
        .collect();
    (header, rows)
}

/// Values as the CSV writes them.
fn parquet_rows(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    let header = schema
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Double(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Bool(value) => value.to_string(),
        other => panic!("a column of another kind: {other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        row.get_column_iter()
            .map(|(_, field)| text(field))
            .collect()
    });
    (header, rows.collect())
}

#[test]
fn frames_have_the_documented_columns_and_all_rows() {
    let folder = Folder::quickstart();
    let out = written(&folder);
    for (name, columns, count) in frames(&folder) {
        let (header, rows) = csv_rows(&out.path().join(format!("{name}.csv")));
        let documented: Vec<&str> = columns.iter().map(|column| column.name).collect();
        assert_eq!(header, documented);
        assert_eq!(rows.len(), count, "{name}");
    }
}

#[test]
fn parquet_reads_back_as_the_csv_does() {
    let folder = Folder::quickstart();
    let out = written(&folder);
    for (name, _, _) in frames(&folder) {
        let (header, rows) = csv_rows(&out.path().join(format!("{name}.csv")));
        let (fields, values) = parquet_rows(&out.path().join(format!("{name}.parquet")));
        assert_eq!(header, fields);
        assert_eq!(rows, values, "{name}");
        let filled = values.iter().flatten().filter(|value| !value.is_empty());
        assert!(filled.count() > values.len() * 10, "{name} is nearly empty");
    }
}

/// Notebooks compute with these columns: a number stored as a text is of no use to them.
#[test]
fn parquet_columns_have_the_documented_types() {
    let folder = Folder::quickstart();
    let out = written(&folder);
    for (name, columns, _) in frames(&folder) {
        let file = fs::File::open(out.path().join(format!("{name}.parquet"))).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        for (field, column) in schema.get_fields().iter().zip(columns) {
            let expected = match column.kind {
                ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                ColumnKind::Integer => (Physical::INT64, Some(LogicalType::integer(64, false))),
                ColumnKind::Number => (Physical::DOUBLE, None),
                ColumnKind::Truth => (Physical::BOOLEAN, None),
            };
            let logical = field.get_basic_info().logical_type_ref().cloned();
            let found = (field.get_physical_type(), logical);
            assert_eq!(found, expected, "{name}: {}", column.name);
        }
    }
}

#[test]
fn a_report_without_a_cell_still_has_its_frames() {
    let folder = Folder::quickstart();
    let (results, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    folder.write_with(results.path(), |_, _| {});
    fs::write(results.path().join("cells.json"), "{}").unwrap();
    write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    for (name, columns, _) in frames(&folder) {
        let (fields, values) = parquet_rows(&out.path().join(format!("{name}.parquet")));
        assert_eq!((fields.len(), values.len()), (columns.len(), 0));
    }
}

/// `docs/results.md` is what other people's scripts are written against.
#[test]
fn the_documentation_lists_every_column_in_order() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let page = fs::read_to_string(page).unwrap();
    for columns in [CELL_COLUMNS, SAMPLE_COLUMNS] {
        let table: String = columns
            .iter()
            .map(|column| {
                let ColumnInfo { name, kind, about } = column;
                format!("| {name} | {} | {about} |\n", kind.name())
            })
            .collect();
        assert!(page.contains(&table), "not in docs/results.md:\n{table}");
    }
}
