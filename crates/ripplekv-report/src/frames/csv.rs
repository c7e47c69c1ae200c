//! A frame as CSV.

use polars::prelude::{AnyValue, DataFrame};

use crate::error::ReportError;

/// A frame as CSV: empty for missing values, floats in their shortest exact form.
pub(crate) fn csv_bytes(name: &str, frame: &DataFrame) -> Result<Vec<u8>, ReportError> {
    let failed = |source| ReportError::Csv {
        name: name.to_owned(),
        source,
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = frame.get_column_names();
    writer
        .write_record(names.iter().map(|name| name.as_str()))
        .map_err(failed)?;
    for index in 0..frame.height() {
        for column in frame.columns() {
            let text = match column.get(index) {
                Ok(AnyValue::Null) | Err(_) => String::new(),
                Ok(AnyValue::String(text)) => text.to_owned(),
                Ok(AnyValue::StringOwned(text)) => text.to_string(),
                Ok(AnyValue::Float64(value)) => value.to_string(),
                Ok(other) => other.to_string(),
            };
            writer.write_field(text).map_err(failed)?;
        }
        writer.write_record(None::<&[u8]>).map_err(failed)?;
    }
    writer
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))
}
