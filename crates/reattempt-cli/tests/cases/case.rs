//! Reads case files: defaults, names and the cases themselves.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::expand::{Names, expand};
use super::members::{Members, Result};
use super::server::KINDS;

/// A case, complete with the defaults of its file and suite; names are not replaced yet.
#[derive(Clone)]
pub(crate) struct Case {
    /// The names of the file and its suite.
    pub(crate) names: Names,
    /// One set of further names per variant; each has servers of its own.
    pub(crate) variants: Vec<Names>,
    /// One set of names per run of the program against the same servers.
    pub(crate) runs: Vec<Names>,
    /// The kind of the servers and their script.
    pub(crate) server: Option<(&'static str, Value)>,
    /// Members of the document, each over those before: of the suite, of the file, of the case.
    pub(crate) document: Vec<Value>,
    /// The same of every call.
    pub(crate) call: Vec<Value>,
    pub(crate) calls: Value,
    /// Standard input as text, instead of a document.
    pub(crate) input: Option<Value>,
    /// What happens to the servers while the program runs.
    pub(crate) meanwhile: Value,
    pub(crate) expected: Expected,
}

/// What must be true of one run; at least one of these is present.
#[derive(Clone)]
pub(crate) struct Expected {
    /// Of a document with one call.
    pub(crate) answer: Option<Value>,
    /// In order, or by the name of the call.
    pub(crate) answers: Option<Value>,
    /// Of every answer.
    pub(crate) every: Option<Value>,
    /// The line that an unusable document gives.
    pub(crate) fault: Option<Value>,
    /// Standard error of a document that can be used; empty by default.
    pub(crate) stderr: Option<Value>,
    /// What the servers saw until all runs had ended.
    pub(crate) seen: Option<Value>,
}

/// The names and defaults of a file, over those of its suite.
#[derive(Clone, Default)]
struct Defaults {
    names: Names,
    document: Vec<Value>,
    call: Vec<Value>,
}

impl Defaults {
    fn read(&mut self, file: &mut Members) -> Result<()> {
        self.names
            .extend(file.take::<Names>("let")?.unwrap_or_default());
        self.document.extend(file.take("document")?);
        self.call.extend(file.take("call")?);
        Ok(())
    }
}

/// A case or what is wrong with it, and what its error must contain if it shows a fault of a case.
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) case: Result<Case>,
    pub(crate) fails_with: Option<String>,
}

/// The cases of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Read>> {
    let mut defaults = Defaults::default();
    let suite = path.with_file_name("suite.json");
    if suite.exists() {
        let mut shared = object(&suite)?;
        defaults.read(&mut shared)?;
        shared.finish()?;
    }
    let mut file = object(path)?;
    let _: String = file.need("about")?;
    defaults.read(&mut file)?;
    let cases: Vec<Value> = file.need("cases")?;
    file.finish()?;
    Ok(cases
        .into_iter()
        .map(|case| Read::of(case, &defaults))
        .collect())
}

impl Read {
    fn of(mut case: Value, defaults: &Defaults) -> Self {
        let fails_with = case
            .as_object_mut()
            .and_then(|case| case.remove("fails_with"));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            name: text(&case["name"]).unwrap_or("a case without a name".to_owned()),
            case: Case::read(case, defaults),
            fails_with: fails_with.as_ref().and_then(text),
        }
    }
}

fn object(path: &Path) -> Result<Members> {
    let read = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let value =
        serde_json::from_str(&read).map_err(|error| format!("{}: {error}", path.display()))?;
    Members::of("file", value)
}

impl Case {
    fn read(case: Value, defaults: &Defaults) -> Result<Self> {
        let whole = json!([case, defaults.names, defaults.document, defaults.call]).to_string();
        let mut case = Members::of("case", case)?;
        let mut names = defaults.names.clone();
        names.extend(case.take::<Names>("let")?.unwrap_or_default());
        let name: String = case.need("name")?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.len() > 60 || !name.chars().all(plain) {
            return Err("name: at most 60 of a-z, 0-9 and _".to_owned());
        }
        for rule in case.take::<Vec<String>>("rules")?.unwrap_or_default() {
            if rule.len() < 2 || rule[1..].parse::<u32>().is_err() {
                return Err(format!("rules: {rule} is no rule"));
            }
        }
        let _: Option<String> = case.take("about")?;
        let mut document = defaults.document.clone();
        document.extend(case.take("document")?);
        let mut call = defaults.call.clone();
        call.extend(case.take("call")?);
        let calls = case.take("calls")?.unwrap_or(json!([{}]));
        let input = case.take("input")?;
        let mut server = None;
        for kind in KINDS {
            if let Some(script) = case.take(kind)? {
                if server.replace((kind, script)).is_some() {
                    return Err(format!("{kind}: a second kind of server"));
                }
            }
        }
        let expected = Expected {
            answer: case.take("answer")?,
            answers: case.take("answers")?,
            every: case.take("every")?,
            fault: case.take("fault")?,
            stderr: case.take("stderr")?,
            seen: case.take("seen")?,
        };
        let Expected {
            answer,
            answers,
            every,
            fault,
            stderr,
            seen,
        } = &expected;
        if [answer, answers, every, fault, stderr, seen]
            .iter()
            .all(|is| is.is_none())
        {
            return Err("expects nothing".to_owned());
        }
        let runs: Option<Vec<Names>> = case.take("runs")?;
        let runs = runs.unwrap_or_else(|| vec![Names::new()]);
        let variants = variants(case.take("each")?, &names)?;
        for name in variants.iter().chain(&runs).flat_map(Names::keys) {
            if !whole.contains(&format!("${{{name}}}")) {
                return Err(format!("{name}: differs between variants, and is not used"));
            }
        }
        let read = Self {
            names,
            variants,
            runs,
            server,
            document,
            call,
            calls,
            input,
            meanwhile: case.take("meanwhile")?.unwrap_or(Value::Array(Vec::new())),
            expected,
        };
        case.finish()?;
        Ok(read)
    }

    /// A case of its own for every variant.
    pub(crate) fn each_variant(&self) -> impl Iterator<Item = Self> + '_ {
        let variants = self.variants.iter();
        variants.map(|variant| Self {
            variants: vec![variant.clone()],
            ..self.clone()
        })
    }
}

/// A list has one variant per item. An object has all combinations of the values of its members;
/// the items of a member that begins with `*` are sets of names.
fn variants(each: Option<Value>, names: &Names) -> Result<Vec<Names>> {
    let all = match each {
        None => Map::new(),
        Some(Value::Object(all)) => all,
        Some(list) => Map::from_iter([("*".to_owned(), list)]),
    };
    let mut variants = vec![Names::new()];
    for (name, values) in all {
        let values = match values {
            Value::Array(values) => values,
            named => serde_json::from_value(expand(&named, names)?)
                .map_err(|error| format!("each.{name}: {error}"))?,
        };
        let mut more = Vec::new();
        for variant in &variants {
            for value in &values {
                let mut variant = variant.clone();
                match value {
                    Value::Object(set) if name.starts_with('*') => variant.extend(set.clone()),
                    value => drop(variant.insert(name.clone(), value.clone())),
                }
                more.push(variant);
            }
        }
        variants = more;
    }
    match variants.is_empty() {
        true => Err("each: is empty".to_owned()),
        false => Ok(variants),
    }
}
