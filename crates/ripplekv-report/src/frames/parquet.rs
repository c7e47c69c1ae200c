//! A frame as Parquet, with the `parquet` crate rather than polars: its own writer would bring compression libraries in C
//! and rebuild half of polars with other features. Plain, one row group, no compression: the frames are small.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use polars::prelude::{AnyValue, Column, DataFrame, DataType as Dtype};

use crate::error::ReportError;

/// The file: texts, 64-bit floats, unsigned 64-bit integers and truth values, every column nullable.
pub(crate) fn parquet_bytes(name: &str, frame: &DataFrame) -> Result<Vec<u8>, ReportError> {
    write(frame).map_err(|source| ReportError::Parquet {
        name: name.to_owned(),
        source,
    })
}

fn write(frame: &DataFrame) -> Result<Vec<u8>, ParquetError> {
    let fields = frame
        .columns()
        .iter()
        .map(field)
        .collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("frame")
        .with_fields(fields)
        .build()?;
    // Names the program and no version of the library: equal results give equal files.
    let properties = WriterProperties::builder()
        .set_created_by("ripplekv".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    for column in frame.columns() {
        let Some(mut file) = rows.next_column()? else {
            return Err(ParquetError::General(
                "fewer columns than fields".to_owned(),
            ));
        };
        put(column, &mut file)?;
        file.close()?;
    }
    rows.close()?;
    writer.into_inner()
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column.dtype() {
        Dtype::Boolean => (Physical::BOOLEAN, None),
        Dtype::Float64 => (Physical::DOUBLE, None),
        Dtype::UInt64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Dtype::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        other => return Err(unknown(column, other)),
    };
    let field = Type::primitive_type_builder(column.name(), physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

fn put(column: &Column, file: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
    match column.dtype() {
        Dtype::Boolean => put_as::<BoolType>(column, file, |value| match value {
            AnyValue::Boolean(value) => Some(value),
            _ => None,
        }),
        Dtype::Float64 => put_as::<DoubleType>(column, file, |value| match value {
            AnyValue::Float64(value) => Some(value),
            _ => None,
        }),
        // Unsigned integers are stored as the signed ones of the same bits.
        Dtype::UInt64 => put_as::<Int64Type>(column, file, |value| match value {
            AnyValue::UInt64(value) => Some(value.cast_signed()),
            _ => None,
        }),
        Dtype::String => put_as::<ByteArrayType>(column, file, |value| match value {
            AnyValue::String(text) => Some(ByteArray::from(text)),
            _ => None,
        }),
        other => Err(unknown(column, other)),
    }
}

/// A type that would be written as another one is a fault of the frame, not something to guess at.
fn unknown(column: &Column, found: &Dtype) -> ParquetError {
    ParquetError::General(format!("column `{}` has type {found}", column.name()))
}

/// The values that are there, and for every row whether it has one.
fn put_as<Kind: DataType>(
    column: &Column,
    file: &mut SerializedColumnWriter<'_>,
    value: impl Fn(AnyValue<'_>) -> Option<Kind::T>,
) -> Result<(), ParquetError> {
    let mut values = Vec::with_capacity(column.len());
    let mut levels = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        let found = column.get(row).ok().and_then(&value);
        levels.push(i16::from(found.is_some()));
        values.extend(found);
    }
    file.typed::<Kind>()
        .write_batch(&values, Some(&levels), None)?;
    Ok(())
}
