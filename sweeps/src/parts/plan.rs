//! The plan: which arms there are, and what all of them have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zinc_engine::levers::RecordArg;

use super::arguments::PlanArgs;
use crate::cli::Cli;
use crate::error::SweepError;
use crate::host;
use crate::output::Folder;
use crate::programs::{EMBEDDED, beside};

/// The version of the document.
pub const SCHEMA_VERSION: u32 = 2;

/// In an option: the folder of the plan, so that files beside it are found from anywhere.
const PLAN_FOLDER: &str = "{plan}";
/// In an option: the folder of the program `sweep`, where the other programs are built.
const PROGRAM_FOLDER: &str = "{bin}";

/// One or several sweeps in arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The document's version.
    pub schema: u32,
    /// BLAKE3 of the document with this field empty, hexadecimal.
    pub hash: String,
    /// Version of the sweep that planned.
    pub sweep_version: String,
    /// BLAKE3 of the engine, the layer and the models, hexadecimal: every machine must have the same. Empty where each machine
    /// may take its own, as in a plan that is handed to strangers.
    pub blake3: BTreeMap<String, String>,
    /// The options of each sweep.
    pub sweeps: Vec<Vec<String>>,
    /// Each arm, by its number.
    pub arms: Vec<Planned>,
}

/// An arm: what of the options it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Its number.
    pub arm: u32,
    /// Whose options it takes: an index into the plan's sweeps.
    pub sweep: u32,
    /// The application that runs; null where it is the engine.
    pub application: Option<String>,
    /// The driver.
    pub driver: String,
    /// The model's path; null for the engine's own, or where an application runs.
    pub model: Option<String>,
    /// The policy beside the reference; null where there is only the reference.
    pub policy: Option<String>,
    /// When the engine records; null where nothing was said.
    pub record: Option<String>,
    /// Busy neighbours; null where nothing was said.
    pub busy: Option<u32>,
}

impl Planned {
    /// In words.
    pub fn about(&self) -> String {
        let mut words = vec![self.driver.clone()];
        words.push(match (&self.application, &self.model) {
            (Some(application), _) => application.clone(),
            (None, Some(model)) => name_of(Path::new(model)),
            (None, None) => EMBEDDED.into(),
        });
        words.extend(self.policy.clone());
        words.extend(self.record.as_ref().map(|r| format!("record {r}")));
        words.extend(self.busy.map(|n| format!("busy {n}")));
        words.join(", ")
    }

    /// Leaves of the whole sweep's arguments what this arm takes.
    pub(super) fn restrict(&self, cli: &mut Cli) -> Result<(), SweepError> {
        let changed = |what: &str| SweepError::Usage(format!("the plan names no {what}; plan anew"));
        cli.drivers = vec![self.driver.parse().map_err(|_| changed("driver"))?];
        cli.models = self.model.iter().map(PathBuf::from).collect();
        let policy = self.policy.as_deref().unwrap_or("stock");
        cli.policies = vec![policy.parse().map_err(|_| changed("policy"))?];
        let record = self.record.iter().map(|r| RecordArg::from_str(r, false));
        cli.record = record.collect::<Result<_, _>>().map_err(|_| changed("way to record"))?;
        cli.busy = self.busy.into_iter().collect();
        Ok(())
    }
}

/// Writes the plan that `args` ask for; what to do with it, for people.
///
/// # Errors
///
/// [`SweepError`]: `Usage` for options that a sweep would not take and for a plan that cannot be added to, `Missing` when a
/// program or model is not there, `Output` when the file cannot be written.
pub fn plan(args: &PlanArgs) -> Result<String, SweepError> {
    let before = if args.add { Some(Plan::read(&args.file)?) } else { None };
    let plan = Plan::of(args, before)?;
    let parent = args.file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = name_of(&args.file);
    let mut json = serde_json::to_string_pretty(&plan).unwrap_or_default();
    json.push('\n');
    Folder::prepare(parent, &[&name])?.replace(&name, &json)?;
    let mut text = String::new();
    for arm in &plan.arms {
        text.push_str(&format!("{:>3}  {}\n", arm.arm, arm.about()));
    }
    let (file, last) = (args.file.display(), plan.arms.len() - 1);
    text.push_str(&format!(
        "\n{} arms in {file}. All of them here: sweep run {file} --out parts\n\
         One of them: sweep run {file} --arm 0 --out parts/0\n\
         Slurm: sbatch --array=0-{last} sweeps/slurm/array.sbatch {file} parts\n\
         In the end: sweep merge --plan {file} parts/*\n",
        plan.arms.len()
    ));
    Ok(text)
}

impl Plan {
    fn of(args: &PlanArgs, before: Option<Plan>) -> Result<Plan, SweepError> {
        let cli = parse(&args.options, &args.file)?;
        if cli.command.is_some() || cli.knobs || cli.print_schema.is_some() {
            return Err(SweepError::Usage("a plan takes the options of a sweep and no other command".into()));
        }
        for own in ["--out", "--resume", "--force"] {
            let mut options = args.options.iter().take_while(|o| *o != "--");
            if options.any(|o| o == own || o.starts_with(&format!("{own}="))) {
                return Err(SweepError::Usage(format!("{own} belongs to `sweep run`, not to the plan")));
            }
        }
        let mut blake3 = BTreeMap::new();
        if !args.unpinned {
            let engine = beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?;
            let layer = beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
            let mut files = vec![("engine".to_string(), engine), ("layer".to_string(), layer)];
            for model in &cli.models {
                if !model.is_file() {
                    return Err(SweepError::Missing(format!("there is no model file '{}'", model.display())));
                }
                files.push((name_of(model), model.clone()));
            }
            blake3 = files.iter().filter_map(|(role, p)| Some((role.clone(), host::blake3_of(p)?))).collect();
        }
        let mut plan = before.unwrap_or_else(|| Plan {
            schema: SCHEMA_VERSION,
            hash: String::new(),
            sweep_version: String::new(),
            blake3: blake3.clone(),
            sweeps: Vec::new(),
            arms: Vec::new(),
        });
        for (role, digest) in blake3.iter().filter(|_| !plan.blake3.is_empty()) {
            if plan.blake3.get(role).is_some_and(|known| known != digest) {
                return Err(SweepError::Usage(format!(
                    "the {role} here is not the one that '{}' was made with: plan anew",
                    args.file.display()
                )));
            }
        }
        if plan.blake3.is_empty() != args.unpinned {
            return Err(SweepError::Usage(format!(
                "'{}' {} programs: say --unpinned for all of a plan's sweeps or for none",
                args.file.display(),
                if args.unpinned { "names its" } else { "names no" }
            )));
        }
        plan.blake3.append(&mut blake3);
        plan.sweep_version = env!("CARGO_PKG_VERSION").into();
        let sweep = plan.sweeps.len() as u32;
        plan.sweeps.push(args.options.clone());
        plan.arms.extend(arms(&cli, sweep, plan.arms.len() as u32));
        plan.hash = plan.own_hash();
        Ok(plan)
    }

    /// What an arm's sweep is to do, where the plan stands in `file`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] when this program does not take the options.
    pub(super) fn cli_of(&self, arm: &Planned, file: &Path) -> Result<Cli, SweepError> {
        let options = self.sweeps.get(arm.sweep as usize).map_or(&[][..], Vec::as_slice);
        let mut cli = parse(options, file)?;
        arm.restrict(&mut cli)?;
        Ok(cli)
    }

    /// Reads a plan and checks that nobody has changed it.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] when there is none, [`SweepError::Usage`] when it was changed.
    pub fn read(path: &Path) -> Result<Plan, SweepError> {
        let missing = |why: String| SweepError::Missing(format!("no plan in '{}': {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| missing(e.to_string()))?;
        let plan: Plan = serde_json::from_str(&text).map_err(|e| missing(e.to_string()))?;
        if plan.schema != SCHEMA_VERSION {
            let (found, own) = (plan.schema, SCHEMA_VERSION);
            return Err(missing(format!("it has schema {found}, and this program reads {own}")));
        }
        if plan.hash != plan.own_hash() {
            return Err(SweepError::Usage(format!(
                "the plan '{}' was changed after it was written: make another with `sweep plan`",
                path.display()
            )));
        }
        Ok(plan)
    }

    /// The arm of a number.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] with the numbers that there are.
    pub fn arm(&self, arm: u32) -> Result<&Planned, SweepError> {
        self.arms.iter().find(|a| a.arm == arm).ok_or_else(|| {
            let last = self.arms.len().saturating_sub(1);
            SweepError::Usage(format!("the plan has no arm {arm}; it has 0 to {last}"))
        })
    }

    fn own_hash(&self) -> String {
        let bare = Plan { hash: String::new(), ..self.clone() };
        let text = serde_json::to_string(&bare).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}

/// The options, with the folders in them that are meant.
fn parse(options: &[String], plan: &Path) -> Result<Cli, SweepError> {
    let folder = |path: Option<&Path>| {
        let path = path.filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::path::absolute(path).unwrap_or_else(|_| path.into()).to_string_lossy().into_owned()
    };
    let own = std::env::current_exe().ok();
    let (beside_plan, beside_program) =
        (folder(plan.parent()), folder(own.as_deref().and_then(Path::parent)));
    let meant: Vec<String> = options
        .iter()
        .map(|o| o.replace(PLAN_FOLDER, &beside_plan).replace(PROGRAM_FOLDER, &beside_program))
        .collect();
    Cli::from_options(&meant).map_err(|e| SweepError::Usage(e.to_string()))
}

/// All combinations of what arms differ in; the first has the number `first`.
fn arms(cli: &Cli, sweep: u32, first: u32) -> Vec<Planned> {
    fn or_nothing<T: Clone>(values: &[T]) -> Vec<Option<T>> {
        if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
    }
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned()
    };
    let models: Vec<String> = cli.models.iter().map(absolute).collect();
    let policies: Vec<String> = cli.arms().iter().map(ToString::to_string).collect();
    let records: Vec<String> =
        cli.record.iter().filter_map(|r| r.to_possible_value().map(|v| v.get_name().to_string())).collect();
    let application = cli.application_name();
    let mut arms = Vec::new();
    for driver in &cli.drivers {
        for model in or_nothing(&models) {
            for record in or_nothing(&records) {
                for busy in or_nothing(&cli.busy) {
                    for policy in or_nothing(&policies) {
                        arms.push(Planned {
                            arm: first + arms.len() as u32,
                            sweep,
                            application: application.clone(),
                            driver: driver.to_string(),
                            model: model.clone(),
                            policy,
                            record: record.clone(),
                            busy,
                        });
                    }
                }
            }
        }
    }
    arms
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli(options: &[&str]) -> Cli {
        Cli::from_options(&options.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn arms_are_all_combinations_and_each_takes_its_own_share_of_the_arguments() {
        let whole = [
            "--driver", "lavapipe", "--driver", "nvidia", "--policy", "none", "--policy", "every", "--busy",
            "0", "--busy", "2", "--tokens", "64",
        ];
        let whole = cli(&whole);
        let arms = arms(&whole, 0, 0);
        assert_eq!(arms.len(), 8);
        assert_eq!(arms.iter().map(|a| a.arm).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        for (i, arm) in arms.iter().enumerate() {
            assert!(arms[..i].iter().all(|other| Planned { arm: arm.arm, ..other.clone() } != *arm));
            let mut own = whole.clone();
            arm.restrict(&mut own).unwrap();
            assert_eq!(own.drivers[0].to_string(), arm.driver);
            assert_eq!(
                own.arms().iter().map(ToString::to_string).collect::<Vec<_>>(),
                [arm.policy.clone().unwrap()]
            );
            assert_eq!((own.busy.clone(), own.tokens), (vec![arm.busy.unwrap()], 64));
        }
        assert_eq!(arms[1].about(), "lavapipe, embedded, none, busy 0");
    }

    #[test]
    fn where_no_policy_is_named_all_are_planned_and_where_only_stock_is_there_is_one_arm() {
        assert_eq!(arms(&cli(&[]), 0, 0).len(), 5);
        let only = arms(&cli(&["--policy", "stock"]), 0, 0);
        assert_eq!((only.len(), &only[0].policy), (1, &None));
        let mut own = cli(&[]);
        only[0].restrict(&mut own).unwrap();
        assert!(own.arms().is_empty());
    }

    #[test]
    fn a_plan_that_was_changed_is_refused() {
        let mut plan = Plan {
            schema: SCHEMA_VERSION,
            hash: String::new(),
            sweep_version: "0".into(),
            blake3: BTreeMap::new(),
            sweeps: vec![vec!["--tokens".into(), "64".into()]],
            arms: arms(&cli(&[]), 0, 0),
        };
        plan.hash = plan.own_hash();
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |plan: &Plan| std::fs::write(file.path(), serde_json::to_string(plan).unwrap()).unwrap();
        write(&plan);
        assert_eq!(Plan::read(file.path()).unwrap(), plan);
        assert_eq!(plan.arm(9).unwrap_err().exit_code(), 2);
        plan.sweeps[0][1] = "128".into();
        write(&plan);
        assert_eq!(Plan::read(file.path()).unwrap_err().exit_code(), 2);
        std::fs::write(file.path(), "{}").unwrap();
        assert_eq!(Plan::read(file.path()).unwrap_err().exit_code(), 3);
    }
}
