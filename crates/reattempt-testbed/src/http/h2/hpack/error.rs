//! Why a header block cannot be decoded.

/// Each one ends the connection (COMPRESSION_ERROR).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HpackError {
    /// The block ends inside a field.
    Truncated,
    /// An integer does not fit.
    Integer,
    /// A Huffman-coded string is not valid.
    Huffman,
    /// The index is in no table.
    Index,
    /// A table size update comes too late or is too large.
    TableSize,
    /// The header list is larger than this server takes.
    TooLarge,
}
