//! From a plan to its cells.

use super::{BuiltInStack, CellShield, Grid, Plan, STACKS, StackPlan};
use crate::factor::{self, Factor, Record, Value};
use crate::{
    KernelChoice, LoadProfile, LoadSpec, ModelError, Probe, ProbeSpec, Protocol, Receive, Role, Setting, SocketSpec,
    Stamps,
};
use std::collections::{BTreeMap, BTreeSet};

/// One combination of factors.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub struct Cell {
    /// Its factors written in order: `load=build,protocol=udp,size=32`. Unique in a plan.
    pub key: String,
    /// Factors by axis name.
    pub factors: BTreeMap<String, serde_json::Value>,
    pub spec: ProbeSpec,
    pub load: Option<LoadSpec>,
    /// How the initiator's worker is started.
    pub stack_initiator: StackPlan,
    /// How the reflector's worker is started.
    pub stack_reflector: StackPlan,
    /// The shield that is up meanwhile.
    pub shield: Option<CellShield>,
    /// The kernel that it is measured on, where the plan names kernels.
    pub kernel: Option<KernelChoice>,
    /// The settings in force meanwhile.
    pub settings: Vec<Setting>,
    /// How many of the plan's reflectors take part, from the first on; absent: all.
    pub reflectors: Option<u32>,
    pub repetitions: u32,
}

impl Cell {
    /// Whether a process of another host has to have a role.
    pub fn needs(&self, role: Role) -> bool {
        self.spec.probe().most_hosts(role) > 0 && self.has_peer()
    }

    /// Whether it sends messages to another host.
    pub fn has_peer(&self) -> bool {
        self.spec.probe().has_peer() && !self.spec.is_local()
    }
}

/// A factor with the value that a cell has of it.
type Choice = (&'static Factor, Value);

impl Plan {
    /// All cells in the order that the plan names them. Errors: an axis without values, a value that cannot be read, a
    /// name without an entry, settings that contradict each other, or a cell that is there twice.
    pub fn cells(&self) -> Result<Vec<Cell>, ModelError> {
        let mut cells = Vec::new();
        let mut seen = BTreeSet::new();
        let varied: BTreeSet<&'static str> = self.grid.iter().flat_map(Grid::names).collect();
        for grid in &self.grid {
            let first = cells.len();
            self.expand(grid, &varied, &mut cells)?;
            if let Some(repetitions) = grid.repetitions {
                cells.iter_mut().skip(first).for_each(|cell| cell.repetitions = repetitions);
            }
        }
        if cells.is_empty() {
            let remedy = "lower min_size, raise max_size, or name other sizes";
            return Err(ModelError::conflict("no message size is left", remedy));
        }
        if let Some(cell) = cells.iter().find(|cell| !seen.insert(cell.key.as_str())) {
            let what = format!("cell '{}' stands in the plan twice", cell.key);
            return Err(ModelError::conflict(what, "remove one of them"));
        }
        Ok(cells)
    }

    fn expand(&self, grid: &Grid, varied: &BTreeSet<&'static str>, cells: &mut Vec<Cell>) -> Result<(), ModelError> {
        let named = |name: &str, probe| {
            factor::find(name).map_or(Ok(Vec::new()), |factor| self.values(grid, factor, probe, None))
        };
        for probe in named(factor::PROBE, Probe::Pingpong)? {
            let probe: Probe = factor::word(&probe).parse()?;
            let protocols = if probe.names_protocol() {
                named(factor::PROTOCOL, probe)?
                    .iter()
                    .map(|value| factor::word(value).parse().map(Some))
                    .collect::<Result<_, _>>()?
            } else {
                vec![Protocol::only_of(probe)]
            };
            for protocol in protocols {
                // The last factor varies fastest.
                let mut all: Vec<Vec<Choice>> = vec![Vec::new()];
                for factor in factor::all().filter(|factor| factor.applies(probe, protocol)) {
                    if [factor::PROBE, factor::PROTOCOL].contains(&factor.name) {
                        continue;
                    }
                    let values = self.values(grid, factor, probe, protocol)?;
                    match values.len() {
                        0 => {}
                        1 => all
                            .iter_mut()
                            .for_each(|choices| choices.extend(values.first().map(|one| (factor, one.clone())))),
                        _ => {
                            let vary = |choices: Vec<Choice>| {
                                let with = |value| choices.iter().cloned().chain([(factor, value)]).collect();
                                values.iter().cloned().map(with).collect::<Vec<_>>()
                            };
                            all = all.into_iter().flat_map(vary).collect();
                        }
                    }
                }
                for choices in all {
                    cells.extend(self.cell(probe, protocol, &choices, varied)?);
                }
            }
        }
        Ok(())
    }

    /// The values of a factor in a grid: those given, or the shared one, or the default; none where cells need none.
    fn values(
        &self,
        grid: &Grid,
        factor: &Factor,
        probe: Probe,
        protocol: Option<Protocol>,
    ) -> Result<Vec<Value>, ModelError> {
        let given = match (grid.get(factor.name), self.measure.get(factor.name)) {
            (Some(values), _) => Some(super::values::expanded(factor, values, protocol)?),
            (None, Some(value)) => Some(super::values::single(factor, value, protocol)?),
            (None, None) => None,
        };
        match given {
            Some(values) if values.is_empty() => {
                let what = format!("axis '{}' has no value", factor.name);
                Err(ModelError::conflict(what, "give it at least one, or leave it out"))
            }
            Some(values) => Ok(values),
            None if factor.kind == factor::ValueType::Sizes => {
                Ok(vec![Value::from(if probe.is_bulk() { crate::stream::default_size(protocol) } else { 32 })])
            }
            None if matches!(factor.record, Record::Always | Record::Named) => {
                let default = factor.default.map(|text| factor.read(text)).transpose()?;
                default.map_or(Ok(Vec::new()), |value| super::values::single(factor, &value, protocol))
            }
            None => Ok(Vec::new()),
        }
    }

    fn is_axis(&self, name: &str) -> bool {
        self.grid.iter().any(|grid| grid.get(name).is_some())
    }

    /// Whether the plan names a factor; cells of one that does not name shields have no shield in their keys.
    pub fn names(&self, name: &str) -> bool {
        self.measure.get(name).is_some() || self.is_axis(name)
    }

    /// One cell; none where its size is left out.
    fn cell(
        &self,
        probe: Probe,
        protocol: Option<Protocol>,
        choices: &[Choice],
        varied: &BTreeSet<&'static str>,
    ) -> Result<Option<Cell>, ModelError> {
        let mut spec = ProbeSpec::new(probe, protocol);
        if let Some(socket) = spec.socket.as_mut().filter(|socket| socket.protocol == Protocol::Pgm) {
            socket.pgm.clone_from(&self.measure.pgm);
        }
        for (factor, value) in choices {
            factor.apply(&mut spec, value)?;
        }
        if spec.sizes.is_empty() {
            return Ok(None);
        }
        spec.check()?;
        if spec.ends().any(|end| end.receive == Receive::Completion) {
            let what = format!("receive mode {} is of Windows, and the hosts of a plan are Linux", Receive::Completion);
            return Err(ModelError::conflict(what, "use epoll, or measure with winpoint by hand"));
        }
        let chosen = |name: &str| choices.iter().find(|(factor, _)| factor.name == name).map(|(_, value)| value);
        let word = |name: &str| chosen(name).map(factor::word).unwrap_or_default();
        let kernel = self.cell_kernel(&word("kernel"))?;
        let settings = self.cell_settings(&word("knob"), kernel.as_ref())?;
        self.check_placement(&spec, &settings)?;
        let load = self.load(&word("load"))?;
        let shield = self.cell_shield(&word("shield"))?;
        if let Some(shield) = &shield {
            self.check_shield(&spec, shield, load.as_ref().and_then(|load| load.cpus.as_ref()))?;
        }
        // Of what has no messages there is none.
        let stack = chosen("stack").map_or_else(|| "kernel".to_owned(), factor::word);
        let (stack_initiator, stack_reflector) = self.stack(&stack)?;
        spec.initiator.preload = stack_initiator.environment.get("LD_PRELOAD").cloned();
        let is_own = spec.peer.is_own();
        spec.reflector.preload = stack_reflector.environment.get("LD_PRELOAD").filter(|_| is_own).cloned();
        let claimed = self.built_in(&stack).map(|built_in| built_in.carries(&spec).map(|()| stack)).transpose()?;
        (spec.initiator.stack, spec.reflector.stack) = (claimed.clone(), claimed.filter(|_| is_own));
        let reflectors = chosen("reflectors").map(|value| self.reflectors(value)).transpose()?;
        let mut factors = BTreeMap::new();
        let mut chosen = choices.iter().peekable();
        for factor in factor::all().filter(|factor| factor.applies(probe, protocol)) {
            // Both are in the order of the table.
            let choice = chosen.next_if(|(other, _)| other.name == factor.name).map(|(_, value)| value.clone());
            let value = match factor.name {
                factor::PROBE => Some(Value::from(probe.word())),
                factor::PROTOCOL => Some(Value::from(Protocol::word_of(protocol))),
                _ => choice,
            };
            let varied = varied.contains(factor.name);
            let named = varied || self.measure.get(factor.name).is_some();
            if let Some(value) = factor.recorded(value.as_ref(), named, varied) {
                factors.insert(factor.recorded_as.to_owned(), value);
            }
        }
        factors.extend(super::pace::pgm_factors(&spec));
        let key = factors.iter().map(|(name, value)| format!("{name}={}", factor::word(value)));
        let key = key.collect::<Vec<_>>().join(",");
        Ok(Some(Cell {
            key,
            factors,
            spec,
            load,
            stack_initiator,
            stack_reflector,
            shield,
            kernel,
            settings,
            reflectors,
            repetitions: self.repetitions,
        }))
    }

    /// How many reflectors take part; the plan must have as many.
    fn reflectors(&self, value: &Value) -> Result<u32, ModelError> {
        let known = u32::try_from(self.roles.hosts(Role::Reflector).len()).unwrap_or(u32::MAX);
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        count.filter(|count| (1..=known.max(1)).contains(count)).ok_or_else(|| {
            let accepted = format!("1 to {known}, the hosts of roles.reflectors");
            ModelError::range("axis 'reflectors'", factor::word(value), accepted)
        })
    }

    /// Refuses what applies to no cell.
    pub(super) fn check_needs(&self, cells: &[Cell]) -> Result<(), ModelError> {
        let probes: BTreeSet<Probe> = cells.iter().map(|cell| cell.spec.probe()).collect();
        let protocols: BTreeSet<Protocol> = cells.iter().filter_map(|cell| cell.spec.protocol()).collect();
        if self.measure.pgm.is_some() && !protocols.contains(&Protocol::Pgm) {
            let what = "measure.pgm has the groups of PGM, and no grid has it";
            return Err(ModelError::conflict(what, "add protocol = [\"pgm\"], or leave it out"));
        }
        for factor in factor::all() {
            let name = factor.name;
            let key = match self.measure.get(name) {
                Some(value) if *value != false => format!("measure.{name}"),
                _ if self.is_axis(name) => format!("axis '{name}'"),
                _ => continue,
            };
            let refuse = |axis: &str, words: Vec<&str>| {
                let (first, words) = (words.first().copied().unwrap_or_default(), words.join(" or "));
                let what = format!("{key} is a setting of {words}, and no grid has {words}");
                Err(ModelError::conflict(what, format!("add {axis} = [\"{first}\"], or leave it out")))
            };
            if !factor.needs.is_empty() && !factor.needs.iter().any(|probe| probes.contains(probe)) {
                return refuse("probe", factor.needs.iter().map(|probe| probe.word()).collect());
            }
            if !factor.protocols.is_empty() && !factor.protocols.iter().any(|one| protocols.contains(one)) {
                return refuse("protocol", factor.protocols.iter().map(|one| one.word()).collect());
            }
        }
        Ok(())
    }

    fn load(&self, name: &str) -> Result<Option<LoadSpec>, ModelError> {
        if name == "none" {
            return Ok(None);
        }
        if let Some(plan) = self.loads.get(name) {
            return Ok(Some(LoadSpec {
                profile: plan.profile,
                jobs: plan.jobs,
                cpus: plan.cpus.clone(),
                command: plan.command.clone(),
                directory: plan.directory.clone(),
            }));
        }
        name.parse::<LoadProfile>().map(|profile| Some(LoadSpec::new(profile))).map_err(|_| {
            let remedy = format!("add [loads.{name}], or use none, build, cpu, memory, disk, net or context");
            ModelError::conflict(format!("load '{name}' is not known"), remedy)
        })
    }

    fn stack(&self, name: &str) -> Result<(StackPlan, StackPlan), ModelError> {
        if let Some(stack) = self.stacks.get(name) {
            let reflector = stack.reflector.as_deref().unwrap_or(stack).clone();
            return Ok((stack.clone(), reflector));
        }
        let built_in = self.built_in(name);
        if built_in.is_none() && name != "kernel" {
            let known = STACKS.map(|stack| stack.name).join(" or ");
            let remedy = format!("add [stacks.{name}], or use kernel, {known}");
            return Err(ModelError::conflict(format!("stack '{name}' is not known"), remedy));
        }
        let prefix = built_in.map(|stack| stack.prefix.map(str::to_owned).to_vec()).unwrap_or_default();
        let stack = StackPlan { prefix, ..StackPlan::default() };
        Ok((stack.clone(), stack))
    }

    /// A stack that the plan does not define itself.
    fn built_in(&self, name: &str) -> Option<&'static BuiltInStack> {
        STACKS.iter().find(|stack| stack.name == name && !self.stacks.contains_key(name))
    }
}

impl BuiltInStack {
    /// Refuses a cell whose sockets it can never carry.
    fn carries(&self, spec: &ProbeSpec) -> Result<(), ModelError> {
        let Self { name, protocols, leaves_options, only_blocking, .. } = self;
        let Some(SocketSpec { protocol, multicast, .. }) = &spec.socket else { return Ok(()) };
        let refuse = |what: &str, that: &str| {
            let remedy = format!("give {that} a [[grid]] of its own, with stack = [\"kernel\"]");
            Err(ModelError::conflict(format!("stack {name} does not carry {what}"), remedy))
        };
        let stamped = spec.pace().is_some_and(|pace| pace.stamps != Stamps::None);
        let segmented = spec.stream().is_some_and(|stream| stream.gso || stream.gro);
        if !protocols.contains(protocol) {
            let carried = Protocol::words_of(|one| protocols.contains(&one));
            refuse(&format!("{protocol}, only {carried}"), protocol.word())
        } else if *leaves_options && multicast.is_some() {
            refuse("multicast", "mcast")
        } else if *leaves_options && stamped {
            refuse("sockets with time stamps", "stamps")
        } else if *leaves_options && spec.capture {
            refuse("packets that captures see", "capture")
        } else if *leaves_options && segmented {
            refuse("sockets with gso or gro", "gso and gro")
        } else if *only_blocking && spec.spins() {
            refuse("ends that spin by themselves", "receive = spin")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::{assert_refused, cells, plan, plan_of};
    use crate::{Plan, Policy, Receive};

    /// Catches: a wake-up cell for each protocol and size, a reflector asked for, factors of messages in its key, and the CPUs of
    /// its threads unknown to the shield.
    #[test]
    fn a_wake_up_has_no_message_and_stands_once_in_a_grid() {
        let grid = "[[grid]]\nprobe = [\"pingpong\", \"wake\"]\nprotocol = [\"tcp\", \"udp\"]\nsize = [32, 64]\n\
                    policy = [\"other\", \"fifo:50;other\"]\ncpu = [\"1\"]\nload = [\"none\", \"build\"]\n";
        let all = cells(grid);
        let wake: Vec<&super::Cell> = all.iter().filter(|cell| cell.spec.probe() == crate::Probe::Wake).collect();
        assert_eq!((all.len(), wake.len()), (2 * 2 * 2 * 2 + 4, 4));
        assert_eq!(wake[1].key, "cpu=1,load=none,policy=fifo:50;other,probe=wake,protocol=timer");
        assert!(wake.iter().all(|cell| !cell.needs(crate::Role::Reflector) && cell.spec.interval_us == Some(1000)));
        assert_eq!(wake[0].spec.initiator_cpus().collect::<Vec<_>>(), [Some(1)]);
        let several =
            "[[grid]]\nprobe = [\"wake\"]\ncpus = [\"1-2\"]\ninterval_us = [200, 1000]\ntimer_slack_ns = [1]\n";
        let several = cells(several);
        assert_eq!(several[0].spec.initiator_cpus().collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert_eq!(
            several[0].key,
            "cpu=any,cpus=1-2,interval_us=200,load=none,policy=other,probe=wake,protocol=timer,timer_slack_ns=1"
        );
        let lists = "[[grid]]\nprobe = [\"wake\"]\ncpu = [\"3\"]\ncpus = [\"any\", \"1\", \"0-1\"]\n";
        let of = |cell: &super::Cell| cell.spec.initiator_cpus().collect::<Vec<_>>();
        assert_eq!(
            cells(lists).iter().map(of).collect::<Vec<_>>(),
            [vec![None], vec![Some(1)], vec![Some(0), Some(1)]]
        );
        assert_refused([
            ("[[grid]]\nprobe = [\"wake\"]\ncpus = [\"\"]\n".to_owned(), "name a CPU"),
            ("[[grid]]\ninterval_us = [200]\n".to_owned(), "add probe = [\"wake\"]"),
            ("[[grid]]\nprobe = [\"wake\"]\ninterval_us = [5]\n".to_owned(), "10 to 10000000 µs"),
            ("[[grid]]\nprobe = [\"wake\"]\ntimer_slack_ns = [0]\n".to_owned(), "timer slack 0"),
            (
                "[measure]\nseconds = 0.5\n[[grid]]\nprobe = [\"wake\"]\ninterval_us = [1000000]\n".to_owned(),
                "before the first deadline",
            ),
            ("[[grid]]\nprotocol = [\"timer\"]\n".to_owned(), "protocol 'timer' is not known"),
        ]);
    }

    #[test]
    fn grids_add_up() {
        let cells = cells(
            "[[grid]]\nprotocol = [\"tcp\", \"udp\"]\nload = [\"none\", \"build\"]\nsize = [32, 64]\n\
             [[grid]]\nprobe = [\"rr\"]\nprotocol = [\"tcp\"]\n",
        );
        assert_eq!(cells.len(), 9);
        assert_eq!(
            cells[0].key,
            "cpu=any,load=none,policy=other,probe=pingpong,protocol=tcp,receive=block,size=32,stack=kernel"
        );
        assert!(cells[2].load.is_some());
    }

    #[test]
    fn a_grid_says_how_often_and_how_long_its_cells_are_measured() {
        let rest = "[measure]\nseconds = 2\n[[grid]]\nsize = [32]\n\
                    [[grid]]\nsize = [64, 128]\nrepetitions = 7\nseconds = 0.25\nwarmup_ms = 20\n";
        let mut plan = plan(rest).unwrap();
        let of = |plan: &Plan| -> Vec<(u32, u32, u32)> {
            let cells = plan.cells().unwrap();
            cells.iter().map(|cell| (cell.repetitions, cell.spec.stop.max_ms, cell.spec.warmup.time_ms)).collect()
        };
        assert_eq!(of(&plan), [(3, 2000, 200), (7, 250, 20), (7, 250, 20)]);
        let key = &plan.cells().unwrap()[1].key;
        assert!(!key.contains("seconds") && !key.contains("warmup"), "a length is no condition: {key}");
        assert_eq!(Plan::parse("t", &plan.to_text().unwrap()).unwrap(), plan);
        plan.set_repetitions(2);
        assert_eq!(of(&plan).iter().map(|cell| cell.0).collect::<Vec<_>>(), [2, 2, 2]);
        // A list of lengths is an axis, as any other.
        assert!(cells("[[grid]]\nseconds = [0.5]\n")[0].key.contains("seconds=0.5"));
    }

    #[test]
    fn what_is_refused_and_how() {
        assert_refused([
            ("[[grid]]\ncolour = [\"red\"]\n", "colour"),
            ("[[grid]]\nsize = []\n", "'size' has no value"),
            ("[[grid]]\nrepetitions = 0\n", "grid.repetitions = 0: repetitions = 0 measures nothing: use 1 or more"),
            (
                "[[grid]]\nrepetitions = \"two\"\n",
                "grid.repetitions = \"two\": use a whole number from 0, such as repetitions = ",
            ),
            (
                "[[grid]]\nseconds = \"1\"\n",
                "grid.seconds = \"1\": use a number or a list of numbers, such as seconds = ",
            ),
            ("[[grid]]\nseconds = 0\n", "grid.seconds = 0"),
            ("[[grid]]\npings = 2\n", "use a list of whole numbers"),
            ("[[grid]]\nseconds = 1\n[[grid]]\nseconds = 2\n", "twice"),
            ("[[grid]]\nsize = [32]\n[[grid]]\nsize = [32]\n", "twice"),
            ("[[grid]]\nprotocol = [\"tcp\"]\nsize = [0]\n", "size 0"),
            ("[[grid]]\nprotocol = [\"udp\"]\nsize = [70000]\n", "70000"),
            ("[[grid]]\nload = [\"heavy\"]\n", "heavy"),
            ("[[grid]]\nstack = [\"onload\"]\n", "onload"),
            ("[[grid]]\nreceive = [\"iocp\"]\n", "measure with winpoint by hand"),
            ("[[grid]]\ncpu = [\"1\"]\nreceive = [\"spin\"]\n", "CPU 1"),
            ("[[grid]]\npolicy = [\"fifo:100\"]\n", "100"),
            ("[[grid]]\nframe_backend = [\"generic\"]\n", "no grid has frame: add protocol = [\"frame\"]"),
            ("[[grid]]\nprobe = [\"stream\"]\nprotocol = [\"frame\"]\n", "stream does not go over frame"),
        ]);
        for (reflectors, rest, word) in
            [("\"z\"", "", "grid"), ("\"z\"", "[[grid]]\n", "'z'"), ("", "[[grid]]\n", "no reflector")]
        {
            let text = plan_of(reflectors, rest).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn each_end_is_claimed_to_run_with_its_stack() {
        let stacks = "[[grid]]\nstack = [\"kernel\", \"shim\"]\n[stacks.shim.environment]\nLD_PRELOAD = \"a.so\"\n";
        let both = cells(stacks);
        assert_eq!((&both[0].spec.initiator.preload, &both[0].spec.reflector.preload), (&None, &None));
        assert_eq!(both[1].spec.initiator.preload.as_deref(), Some("a.so"));
        assert_eq!(both[1].spec.reflector.preload.as_deref(), Some("a.so"));
        let other = cells(&format!("{stacks}[stacks.shim.reflector.environment]\nEF_POLL_USEC = \"1\"\n"));
        assert_eq!(other[1].spec.reflector.preload, None);
    }

    #[test]
    fn built_in_stacks_need_no_definition_and_a_definition_wins() {
        let rest = "[[grid]]\nstack = [\"kernel\", \"spin\", \"xdp\"]\n";
        let all = cells(rest);
        for (cell, (stack, first)) in
            all.iter().zip([(None, ""), (Some("spin"), "windhover"), (Some("xdp"), "windhover")])
        {
            let spec = &cell.spec;
            assert_eq!((spec.initiator.stack.as_deref(), spec.reflector.stack.as_deref()), (stack, stack));
            assert_eq!(cell.stack_initiator, cell.stack_reflector);
            let prefix = &cell.stack_initiator.prefix;
            assert_eq!(prefix.first().map_or("", String::as_str), first);
            assert!(stack.is_none_or(|name| prefix.windows(2).any(|pair| pair == ["--stack", name])), "{prefix:?}");
        }
        let own = cells(&format!("{rest}[stacks.xdp]\nprefix = [\"mine\"]\n"));
        assert_eq!(
            (own[2].stack_initiator.prefix.as_slice(), &own[2].spec.initiator.stack),
            (&["mine".to_owned()][..], &None)
        );
        assert_refused([("[[grid]]\nstack = [\"dpdk\"]\n", "use kernel, spin or xdp")]);
    }

    /// Such cells would all be invalid, which the user learns before the campaign and not after it.
    #[test]
    fn a_built_in_stack_is_refused_for_what_it_never_carries() {
        for (grid, words) in [
            ("protocol = [\"udp\", \"shm\"]\nstack = [\"kernel\", \"spin\"]\n", "stack spin does not carry shm"),
            ("protocol = [\"frame\"]\nstack = [\"xdp\"]\n", "does not carry frame, only tcp or udp"),
            ("protocol = [\"mptcp\"]\nstack = [\"xdp\"]\n", "stack xdp does not carry mptcp"),
            (
                "mcast = [\"239.1.2.3\"]\nstack = [\"kernel\", \"xdp\"]\n",
                "stack xdp does not carry multicast: give mcast",
            ),
            ("probe = [\"pace\"]\nstamps = [\"auto\"]\nstack = [\"xdp\"]\n", "does not carry sockets with time stamps"),
            (
                "probe = [\"stream\"]\nprotocol = [\"udp\"]\ngso = [true]\nstack = [\"kernel\", \"xdp\"]\n",
                "stack xdp does not carry sockets with gso or gro",
            ),
            (
                "probe = [\"stream\"]\nprotocol = [\"udp\"]\ngro = [true]\nstack = [\"xdp\"]\n",
                "give gso and gro a [[grid]] of its own",
            ),
            (
                "receive = [\"spin;block\"]\nstack = [\"spin\"]\n",
                "stack spin does not carry ends that spin by themselves: give receive = spin",
            ),
            ("receive = [\"block\", \"block;spin\"]\nstack = [\"spin\"]\n", "does not carry ends that spin"),
            ("probe = [\"ping\"]\nstack = [\"spin\"]\n", "give icmp a [[grid]] of its own, with stack = [\"kernel\"]"),
        ] {
            assert_refused([(format!("[[grid]]\n{grid}"), words)]);
        }
        let stays = "[[grid]]\nprotocol = [\"mptcp\", \"udp\"]\nmcast = [\"239.1.2.3\"]\nstack = [\"spin\"]\n";
        assert_eq!(cells(stays).len(), 2);
        assert_eq!(cells("[[grid]]\nreceive = [\"spin\"]\nstack = [\"kernel\", \"xdp\"]\n").len(), 2);
        assert_eq!(
            cells("[[grid]]\nprotocol = [\"shm\"]\nstack = [\"spin\"]\n[stacks.spin]\nprefix = [\"env\"]\n").len(),
            1
        );
    }

    #[test]
    fn two_ended_values() {
        let grid = "[[grid]]\ncpu = [\"0;1\"]\npolicy = [\"fifo:1;other\"]\nreceive = [\"spin;block\"]\n";
        let spec = cells(grid).remove(0).spec;
        assert_eq!((spec.initiator.cpu, spec.reflector.cpu), (Some(0), Some(1)));
        assert_eq!((spec.initiator.policy, spec.reflector.policy), (Policy::Fifo(1), Policy::Other));
        assert_eq!((spec.initiator.receive, spec.reflector.receive), (Receive::Spin, Receive::Block));
    }

    /// Catches: a plan that passes its check and fails while it runs, because the other tool's server is told what it cannot be.
    #[test]
    fn another_tools_server_is_told_nothing_by_a_plan() {
        let made = cells(
            "[measure]\ncpu = \"1\"\npolicy = \"fifo:1\"\n[stacks.fast.environment]\nLD_PRELOAD = \"a.so\"\n\
             [[grid]]\npeer = [\"sockperf\", \"windhover\"]\nstack = [\"spin\", \"fast\"]\nshield = [\"off\", \"auto\"]\n",
        );
        assert_eq!(made.len(), 8);
        for cell in made {
            assert_eq!(cell.spec.check(), Ok(()), "{}", cell.key);
            let (own, other) = (&cell.spec.initiator, &cell.spec.reflector);
            assert_eq!((own.cpu, own.policy), (Some(1), crate::Policy::Fifo(1)));
            assert_eq!(*other == crate::EndSpec::default(), !cell.spec.peer.is_own(), "{}", cell.key);
        }
    }
}
