//! `extentwise explain`: shows what the core decides for scenarios.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use extentwise_scenario::picture::{Picture, svg};
use extentwise_scenario::result::{InvalidResult, ScenarioResult};
use extentwise_scenario::{Invalid, Scenario, oracle, parse, run as core};
use serde_json::Value;

const EXAMPLES: &str = "\
Examples:
  extentwise explain case.json
      a picture of the folios, the ordered extents, EOF and the bios, or of a block
  extentwise explain --format json cases.jsonl
      one result a line, in the order of the input
  extentwise explain --mode both --format json - < cases.jsonl
      decide each scenario twice, extent by extent and block by block, and compare
  extentwise explain --format svg case.json > case.svg

A scenario:
  {\"kind\":\"writeback\",\"name\":\"EOF inside a run\",\"block_size\":4096,\"i_size\":10000,
   \"folios\":[{\"pos\":0,\"size\":65536,\"submit\":[[0,65536]]}],
   \"ordered\":[{\"file_offset\":0,\"num_bytes\":65536,\"disk_bytenr\":1048576}]}

Exit code: 0, or 1 if a scenario was invalid, the modes differ, or the input cannot be read.";

/// Explains scenarios: what happens to each block, ordered extent and bio.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Scenarios, as one JSON object or as JSON Lines; - is the standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How results are shown
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// How scenarios are decided
    #[arg(long, value_enum, default_value_t = Mode::Extent)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A picture for people
    Text,
    /// One JSON object a line
    Json,
    /// One SVG document
    Svg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Extent by extent, by the core
    Extent,
    /// Block by block, by the reference
    Block,
    /// Both, compared; shows what the core decides
    Both,
}

/// Runs the subcommand.
pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let text = read(&args.file)?;
    let stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut explain = Explain {
        args,
        sink: Sink::new(args.format, stdout),
        trouble: Trouble::None,
    };
    match explain.all(&text) {
        Ok(()) => {}
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(error).context("cannot write the results"),
    }
    Ok(match explain.trouble {
        Trouble::None => ExitCode::SUCCESS,
        Trouble::Some => ExitCode::FAILURE,
    })
}

struct Explain<'a, W: Write> {
    args: &'a ExplainArgs,
    sink: Sink<W>,
    trouble: Trouble,
}

/// Whether any scenario was invalid, or decided differently by the modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    Some,
}

impl<W: Write> Explain<'_, W> {
    fn all(&mut self, text: &str) -> io::Result<()> {
        for item in parse::scenarios(text) {
            match item.scenario {
                Ok(scenario) => {
                    let result = self.decide(&scenario, item.line);
                    self.sink.result(&scenario, &result)?;
                }
                Err(invalid) => {
                    self.report(item.line, invalid.name.as_deref(), &invalid.to_string());
                    self.sink.invalid(invalid, item.line)?;
                }
            }
        }
        self.sink.finish()
    }

    fn decide(&mut self, scenario: &Scenario, line: usize) -> ScenarioResult {
        let by_core = || {
            ScenarioResult::of(
                scenario,
                core::writeback,
                core::write_begin,
                core::extent_buffer,
            )
        };
        let by_oracle = || {
            ScenarioResult::of(
                scenario,
                oracle::writeback,
                oracle::write_begin,
                oracle::extent_buffer,
            )
        };
        match self.args.mode {
            Mode::Extent => by_core(),
            Mode::Block => by_oracle(),
            Mode::Both => {
                let (extent, block) = (by_core(), by_oracle());
                if extent != block {
                    let keys = differing_keys(&extent, &block).join(", ");
                    let what = format!("extent and block mode differ in {keys}");
                    self.report(line, Some(scenario.name()), &what);
                }
                extent
            }
        }
    }

    /// Tells about a scenario on the standard error, and fails the run.
    fn report(&mut self, line: usize, name: Option<&str>, what: &str) {
        self.trouble = Trouble::Some;
        let place = if is_stdin(&self.args.file) {
            format!("line {line}")
        } else {
            format!("{}:{line}", self.args.file.display())
        };
        let name = name.map_or(String::new(), |name| format!(" ({name:?})"));
        // Where the standard error is closed, there is nobody to tell.
        let _ = writeln!(io::stderr(), "extentwise: {place}{name}: {what}");
    }
}

/// Where results go, in one format.
enum Sink<W: Write> {
    Text { out: W, count: usize },
    Json { out: W },
    Svg { out: W, pictures: Vec<Picture> },
}

impl<W: Write> Sink<W> {
    fn new(format: Format, out: W) -> Self {
        match format {
            Format::Text => Sink::Text { out, count: 0 },
            Format::Json => Sink::Json { out },
            Format::Svg => Sink::Svg {
                out,
                pictures: Vec::new(),
            },
        }
    }

    fn result(&mut self, scenario: &Scenario, result: &ScenarioResult) -> io::Result<()> {
        match self {
            Sink::Json { out } => json_line(out, result),
            Sink::Text { .. } | Sink::Svg { .. } => match picture(scenario, result) {
                Some(picture) => self.picture(picture),
                None => Ok(()),
            },
        }
    }

    fn invalid(&mut self, invalid: Invalid, line: usize) -> io::Result<()> {
        match self {
            Sink::Json { out } => json_line(out, &InvalidResult::from(invalid)),
            Sink::Text { .. } | Sink::Svg { .. } => self.picture(Picture::refused(&invalid, line)),
        }
    }

    fn picture(&mut self, picture: Picture) -> io::Result<()> {
        match self {
            Sink::Text { out, count } => {
                *count += 1;
                if *count > 1 {
                    out.write_all(b"\n")?;
                }
                out.write_all(picture.to_text().as_bytes())
            }
            Sink::Svg { pictures, .. } => {
                pictures.push(picture);
                Ok(())
            }
            Sink::Json { .. } => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Sink::Text { out, .. } | Sink::Json { out } => out.flush(),
            Sink::Svg { out, pictures } => {
                out.write_all(svg::document(pictures).as_bytes())?;
                out.flush()
            }
        }
    }
}

fn json_line(out: &mut impl Write, result: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, result)?;
    out.write_all(b"\n")
}

fn picture(scenario: &Scenario, result: &ScenarioResult) -> Option<Picture> {
    match (scenario, result) {
        (Scenario::Writeback(scenario), ScenarioResult::Writeback(result)) => {
            Some(Picture::writeback(scenario, result))
        }
        (Scenario::WriteBegin(scenario), ScenarioResult::WriteBegin(result)) => {
            Some(Picture::write_begin(scenario, result))
        }
        (Scenario::ExtentBuffer(scenario), ScenarioResult::ExtentBuffer(result)) => {
            Some(Picture::extent_buffer(scenario, result))
        }
        _ => None,
    }
}

/// The keys of the results' JSON that do not agree.
fn differing_keys(extent: &ScenarioResult, block: &ScenarioResult) -> Vec<String> {
    let (Ok(Value::Object(extent)), Ok(Value::Object(block))) =
        (serde_json::to_value(extent), serde_json::to_value(block))
    else {
        return Vec::new();
    };
    extent
        .iter()
        .filter(|(key, value)| block.get(*key) != Some(*value))
        .map(|(key, _)| key.clone())
        .collect()
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let name = if is_stdin(file) {
        io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("cannot read the standard input")?;
        "the standard input".to_owned()
    } else {
        File::open(file)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {}", file.display()))?;
        file.display().to_string()
    };
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|&byte| byte == b'\n').count();
        anyhow::anyhow!("{name} is not UTF-8 at byte {at}, in line {line}")
    })
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}
