//! Bodies in protobuf (`application/vnd.kubernetes.protobuf`), which typed Go clients send, kubectl's `create`
//! among them. They are read into the JSON that the server goes on with; answers are always JSON, which such
//! clients take too. How fields are numbered is in `schemas/protobuf.bin`, made by `schemas/protobuf/main.go`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

static PACKED: &[u8] = include_bytes!("../schemas/protobuf.bin");

/// What stands before each body; then comes a `runtime.Unknown`.
const MAGIC: &[u8] = b"k8s\0";
/// More than any type's fields are nested.
const DEPTH: usize = 64;

#[derive(Debug, thiserror::Error, PartialEq)]
pub(super) enum ProtobufError {
    #[error("the body does not begin as Kubernetes' protobuf does; send JSON")]
    Magic,
    #[error("the body ends in the middle of a field; send it whole")]
    Short,
    #[error("the kind {0} is not known in protobuf; send JSON")]
    Kind(String),
    #[error("the field {0} is not what its type says; send JSON")]
    Field(String),
}

/// A field of a message.
struct Field {
    name: &'static str,
    /// `*`, `m`, `i`, `z`: see `schemas/protobuf/main.go`.
    flags: &'static str,
    of: &'static str,
}

#[derive(Default)]
struct Table {
    /// The message of `GROUP/VERSION/KIND`.
    kinds: BTreeMap<&'static str, &'static str>,
    messages: BTreeMap<&'static str, BTreeMap<u64, Field>>,
}

/// Read once in a process. An unreadable file knows no kind, which a test would see.
fn table() -> &'static Table {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let text = zstd::decode_all(PACKED).unwrap_or_default();
        String::from_utf8(text).unwrap_or_default()
    });
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut table = Table::default();
        for line in TEXT.lines() {
            let mut words = line.split(' ');
            let Some(first) = words.next() else { continue };
            match (first.strip_prefix('='), &mut words) {
                (Some(kind), words) => table.kinds.extend(words.next().map(|of| (kind, of))),
                (None, words) => {
                    table.messages.insert(first, words.filter_map(field).collect());
                }
            }
        }
        table
    });
    &TABLE
}

fn field(word: &'static str) -> Option<(u64, Field)> {
    let mut parts = word.split(':');
    let number = parts.next()?.parse().ok()?;
    Some((number, Field { name: parts.next()?, flags: parts.next()?, of: parts.next()? }))
}

/// Reads a body into an object.
pub(super) fn read(body: &[u8]) -> Result<Value, ProtobufError> {
    let mut envelope = Reader(body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?);
    let (mut meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    while let Some((number, wire)) = envelope.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => meta = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut version, mut kind) = (String::new(), String::new());
    let mut meta = Reader(meta);
    while let Some((number, wire)) = meta.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => version = String::from_utf8_lossy(bytes).into_owned(),
            (2, Wire::Bytes(bytes)) => kind = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    let full = if version.contains('/') { format!("{version}/{kind}") } else { format!("/{version}/{kind}") };
    // The same in all groups.
    let options = (kind == "DeleteOptions").then_some(&"meta.v1.DeleteOptions");
    let of = options.or_else(|| table().kinds.get(full.as_str())).ok_or(ProtobufError::Kind(full))?;
    let mut object = message(of, raw, 0)?;
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    Ok(object)
}

fn message(of: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let fields = table().messages.get(of).filter(|_| depth < DEPTH);
    let fields = fields.ok_or_else(|| ProtobufError::Field(of.to_owned()))?;
    let mut object = Map::new();
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Some(Field { name, flags, of }) = fields.get(&number) else { continue };
        let wrong = || ProtobufError::Field((*name).to_owned());
        if flags.contains('m') {
            let Wire::Bytes(entry) = wire else { return Err(wrong()) };
            let (key, value) = entry_of(of, entry, depth)?;
            let map = object.entry(*name).or_insert_with(|| json!({}));
            map[key] = value;
        } else if flags.contains('*') {
            let value = value(of, name, wire, depth)?;
            let list = object.entry(*name).or_insert_with(|| json!([]));
            list.as_array_mut().ok_or_else(wrong)?.push(value);
        } else if flags.contains('i') {
            if let Value::Object(inner) = value(of, name, wire, depth)? {
                object.extend(inner);
            }
        } else {
            let value = value(of, name, wire, depth)?;
            let zero = value == json!("") || value == json!(0) || value == json!(false);
            if !(zero && flags.contains('z')) {
                object.insert((*name).to_owned(), value);
            }
        }
    }
    Ok(Value::Object(object))
}

fn entry_of(of: &str, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut found = None;
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
            (2, wire) => found = Some(value(of, &key, wire, depth)?),
            _ => {}
        }
    }
    let found = match found {
        Some(value) => value,
        None => value(of, &key, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, found))
}

fn value(of: &str, name: &str, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    let wrong = || ProtobufError::Field(name.to_owned());
    Ok(match (of, wire) {
        ("s", Wire::Bytes(bytes)) => json!(std::str::from_utf8(bytes).map_err(|_| wrong())?),
        ("b", Wire::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        ("n", Wire::Number(number)) => json!(number.cast_signed()),
        ("t", Wire::Number(number)) => json!(number != 0),
        ("f", Wire::Fixed(bits)) => json!(f64::from_bits(bits)),
        ("meta.v1.Time" | "meta.v1.MicroTime", Wire::Bytes(bytes)) => {
            let parts = Parts::read(bytes)?;
            let time = Timestamp::new(parts.number(1), i32::try_from(parts.number(2)).map_err(|_| wrong())?);
            let format = if of == "meta.v1.Time" { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
            match bytes {
                [] => Value::Null,
                _ => json!(time.map_err(|_| wrong())?.strftime(format).to_string()),
            }
        }
        ("api.resource.Quantity", Wire::Bytes(bytes)) => json!(Parts::read(bytes)?.text(1)),
        ("util.intstr.IntOrString", Wire::Bytes(bytes)) => match Parts::read(bytes)? {
            parts if parts.number(1) == 0 => json!(parts.number(2)),
            parts => json!(parts.text(3)),
        },
        ("pkg.runtime.RawExtension" | "meta.v1.FieldsV1", Wire::Bytes(bytes)) => {
            let raw = Parts::read(bytes)?.bytes(1);
            if raw.is_empty() { Value::Null } else { serde_json::from_slice(raw).map_err(|_| wrong())? }
        }
        ("list.of.s", Wire::Bytes(bytes)) => {
            let all = Parts::read(bytes)?.0;
            let texts = all.iter().filter_map(|(_, wire)| match wire {
                Wire::Bytes(bytes) => Some(json!(String::from_utf8_lossy(bytes))),
                Wire::Number(_) | Wire::Fixed(_) => None,
            });
            texts.collect()
        }
        (of, Wire::Bytes(bytes)) if of.contains('.') => message(of, bytes, depth + 1)?,
        _ => return Err(wrong()),
    })
}

/// The fields of a small message.
struct Parts<'a>(Vec<(u64, Wire<'a>)>);

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut reader = Reader(bytes);
        let mut parts = Vec::new();
        while let Some(part) = reader.next()? {
            parts.push(part);
        }
        Ok(Parts(parts))
    }

    fn number(&self, wanted: u64) -> i64 {
        let mut found = self.0.iter().filter(|(number, _)| *number == wanted);
        found
            .find_map(
                |(_, wire)| if let Wire::Number(number) = wire { Some(number.cast_signed()) } else { None },
            )
            .unwrap_or_default()
    }

    fn bytes(&self, wanted: u64) -> &'a [u8] {
        let mut found = self.0.iter().filter(|(number, _)| *number == wanted);
        found
            .find_map(|(_, wire)| if let Wire::Bytes(bytes) = wire { Some(*bytes) } else { None })
            .unwrap_or_default()
    }

    fn text(&self, wanted: u64) -> String {
        String::from_utf8_lossy(self.bytes(wanted)).into_owned()
    }
}

/// A value as it is on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next field: its number and its value.
    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.number()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Fixed(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| ProtobufError::Short)?)),
            2 => {
                let length = self.number()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| ProtobufError::Short)?)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return Err(ProtobufError::Short),
        };
        Ok(Some((key >> 3, wire)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of up to ten bytes of seven bits.
    fn number(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes; lengths below 128.
    fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
        let length = u8::try_from(inner.len()).expect("short");
        [&[number << 3 | 2, length], inner].concat()
    }

    fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC, &bytes(1, &meta), &bytes(2, raw)].concat()
    }

    #[test]
    fn maps_bytes_pointers_times_and_inlined_structs_are_read() {
        let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
        // A creationTimestamp of nothing, then the name; generateName is a zero that is not stored.
        let meta = [bytes(1, b"a"), bytes(2, b""), bytes(8, b"")].concat();
        let raw = [bytes(1, &meta), bytes(2, &entry), bytes(3, &entry), vec![4 << 3, 0]].concat();
        let read_back = read(&body("v1", "ConfigMap", &raw)).expect("readable");
        let wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": null},
            "data": {"k": "v"}, "binaryData": {"k": "dg=="}, "immutable": false,
        });
        assert_eq!(read_back, wanted);
        let time = [vec![1 << 3, 1], vec![2 << 3, 0]].concat();
        let read_back = read(&body("v1", "ConfigMap", &bytes(1, &bytes(8, &time)))).expect("readable");
        assert_eq!(read_back["metadata"]["creationTimestamp"], "1970-01-01T00:00:01Z");
        let source = bytes(2, &bytes(2, &[]));
        let volume = [bytes(1, b"v"), source].concat();
        let pod = bytes(2, &bytes(1, &volume));
        let read_back = read(&body("v1", "Pod", &pod)).expect("readable");
        assert_eq!(read_back["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    }

    #[test]
    fn what_is_no_such_body_is_refused_and_nothing_panics() {
        assert_eq!(read(b"{}"), Err(ProtobufError::Magic));
        assert_eq!(read(&body("x.dev/v1", "Thing", b"")), Err(ProtobufError::Kind("x.dev/v1/Thing".into())));
        let good = body("v1", "ConfigMap", &bytes(1, &bytes(1, b"a")));
        assert_eq!(read(&good[..good.len() - 1]), Err(ProtobufError::Short));
        for cut in 0..good.len() {
            let _ = read(&good[..cut]);
        }
        let mut chance = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bad = good.clone();
            let at = chance.usize(..bad.len());
            bad[at] = chance.u8(..);
            let _ = read(&bad);
        }
    }
}
