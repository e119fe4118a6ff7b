//! Headers and blocks.

/// The length of an entry in bytes.
pub const LENGTH: usize = 38;
/// The most items of a block.
pub(super) const MOST_ITEMS: usize = 256;
/// The most bytes of a policy's text.
pub(super) const MOST_TEXT: usize = 4 * 1024 * 1024;
/// The length of a block before its items.
pub(super) const BLOCK: usize = 32;
/// The length of a header before the policy's text.
pub(super) const HEAD: usize = 28;
pub(super) const MAGIC: &[u8; 8] = b"RATTREC1";
pub(super) const BLOCK_MAGIC: &[u8; 4] = b"RBLK";
pub(super) const ENTRIES: u8 = 1;
pub(super) const NAMES: u8 = 2;
pub(super) const ROUTE: u8 = 0;
pub(super) const REASON: u8 = 1;

/// What kind of text a recorded policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An HTTP policy of `reattempt-http`.
    HttpPolicy,
    /// gRPC's service config.
    ServiceConfig,
    /// The name of a key-value strategy, as JSON.
    Kv,
}

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the file in the recording, from 0.
    pub file: u32,
    /// The recording, which may have several files.
    pub recording: u64,
    /// The policy that the calls ran under, if the program gave it.
    pub policy: Option<(Form, String)>,
}

/// FNV-1a.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(feature = "tokio")]
impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (form, text) = match &self.policy {
            None => (0, ""),
            Some((Form::HttpPolicy, text)) => (1, text.as_str()),
            Some((Form::ServiceConfig, text)) => (2, text.as_str()),
            Some((Form::Kv, text)) => (3, text.as_str()),
        };
        let mut out = MAGIC.to_vec();
        out.extend((LENGTH as u16).to_le_bytes());
        out.extend([form, 0]);
        out.extend(self.file.to_le_bytes());
        out.extend(self.recording.to_le_bytes());
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
        let sum = checksum([out.as_slice()]);
        out.extend(sum.to_le_bytes());
        out
    }
}

/// The bytes of a block.
#[cfg(feature = "tokio")]
pub(super) fn block(kind: u8, count: usize, base: u64, lost: u64, items: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK + items.len());
    out.extend(BLOCK_MAGIC);
    out.extend([kind, 0]);
    out.extend((count as u16).to_le_bytes());
    out.extend((items.len() as u32).to_le_bytes());
    out.extend(base.to_le_bytes());
    out.extend(lost.to_le_bytes());
    let sum = checksum([out.as_slice(), items]);
    out.extend(sum.to_le_bytes());
    out.extend(items);
    out
}
