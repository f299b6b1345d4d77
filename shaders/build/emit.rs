//! The Rust text: a static for each kernel, and a module of types for each family. No one reads it, so it is not laid out.

use super::interface::{Binding, Constant, Direction, Family, Field, Kernel, Kind, Of};
use super::reflect::WORKGROUP;

/// The static of a kernel.
pub fn kernel(kernel: &Kernel) -> String {
    let Kernel { name, doc, module, spirv, .. } = kernel;
    let bindings = joined(&module.bindings, |b| format!("Direction::{:?}", b.direction));
    let constants = joined(&module.constants, |c| {
        format!("Constant {{ id: {}, name: {:?}, default: {} }}", c.id, c.name, c.default)
    });
    let capabilities = joined(&module.capabilities, |c| format!("Capability::{c:?}"));
    let (upper, push_bytes) = (name.to_uppercase(), 4 * module.push.len());
    format!(
        "/// {doc}
        pub static {upper}: Kernel = Kernel {{
            name: {name:?},
            bindings: &[{bindings}],
            push_bytes: {push_bytes},
            constants: &[{constants}],
            capabilities: &[{capabilities}],
            spirv: &{spirv:?},
        }};\n"
    )
}

/// The static with the list of these kernels.
pub fn list(kernels: &[Kernel]) -> String {
    let (count, all) = (kernels.len(), joined(kernels, |kernel| format!("&{}", kernel.name.to_uppercase())));
    format!("/// Every kernel of the engine, by name.\npub static KERNELS: [&Kernel; {count}] = [{all}];\n")
}

/// The module of a family of kernels.
pub fn family(family: &Family, kernels: &[&Kernel]) -> String {
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.to_uppercase()).collect();
    let docs = joined(&names, |name| format!("[`{name}`]"));
    let constants = constants(&family.constants);
    let push = record("Push constants.", "Push", &family.push, |Field { name, kind }| {
        (format!("`{name}`."), name.clone(), rust(*kind).to_owned())
    });
    let words = joined(&family.push, |field| word(field.kind, &format!("self.{}", field.name)));
    let bindings = record("What is bound to each binding.", "Bindings<B>", &family.bindings, binding);
    let bound = joined(&family.bindings, |Of { what, everywhere }| {
        let field = format!("bindings.{}", snake(&what.name));
        if *everywhere { format!("Some({field})") } else { field }
    });
    let builds = builds(&names);
    format!(
        "/// The types of what is taken by {docs}.
        pub mod {} {{
            {constants}
            {push}
            {bindings}
            {builds}
            impl crate::Takes for Push {{
                type Build = Build;
                type Constants = Constants;
                type Bindings<B> = Bindings<B>;
                fn words(self) -> Vec<u32> {{
                    vec![{words}]
                }}
                fn call<B>(self, build: Build, constants: Constants, bindings: Bindings<B>) -> crate::Call<B> {{
                    crate::Call::new(build.0, constants.entries(), crate::Takes::words(self), [{bound}])
                }}
            }}
        }}\n",
        family.name
    )
}

fn constants(constants: &[Of<Constant>]) -> String {
    let fields = record("Specialization constants.", "Constants", constants, |Of { what, everywhere }| {
        let of = if *everywhere { "" } else { "; only some of the kernels have it" };
        let ty =
            if *everywhere { rust(what.kind).to_owned() } else { format!("Option<{}>", rust(what.kind)) };
        (format!("Constant {}, `{}`{of}.", what.id, what.name), what.name.to_lowercase(), ty)
    });
    let defaults: String = constants
        .iter()
        .map(|Of { what: Constant { name, kind, default, .. }, .. }| {
            let ty = rust(*kind);
            let value = match kind {
                Kind::Bool => (*default != 0).to_string(),
                Kind::Uint => default.to_string(),
                Kind::Float => format!("f32::from_bits({default})"),
            };
            format!("/// The value that the shader gives it.\npub const {name}: {ty} = {value};\n")
        })
        .collect();
    let entries = joined(constants, |Of { what, everywhere }| {
        let (id, field) = (what.id, format!("self.{}", what.name.to_lowercase()));
        match everywhere {
            true => format!("Some(({id}, {}))", word(what.kind, &field)),
            false => format!("{field}.map(|value| ({id}, {}))", word(what.kind, "value")),
        }
    });
    let from = match constants {
        [Of { what, .. }] if what.name == WORKGROUP => {
            "impl From<u32> for Constants {
                fn from(workgroup: u32) -> Self {
                    Self { workgroup }
                }
            }"
        }
        _ => "",
    };
    format!(
        "{fields}
        {from}
        impl Constants {{
            {defaults}
            /// Id and bits of each that is there, by id.
            pub fn entries(self) -> Vec<(u32, u32)> {{
                [{entries}].into_iter().flatten().collect()
            }}
        }}"
    )
}

fn binding(Of { what: Binding { name, direction }, everywhere }: &Of<Binding>) -> (String, String, String) {
    let does = match direction {
        Direction::Read => "Read",
        Direction::Write => "Written",
        Direction::ReadWrite => "Read and written",
    };
    let (of, ty) = if *everywhere { ("", "B") } else { (", by the kernels that have it", "Option<B>") };
    (format!("{does}{of}."), snake(name), ty.to_owned())
}

/// A struct of documented public fields: documentation, name, type.
fn record<T>(doc: &str, name: &str, all: &[T], field: impl Fn(&T) -> (String, String, String)) -> String {
    let fields: String = all
        .iter()
        .map(|one| {
            let (doc, name, ty) = field(one);
            format!("/// {doc}\npub {name}: {ty},\n")
        })
        .collect();
    format!("/// {doc}\n#[derive(Debug, Clone, Copy, PartialEq)]\npub struct {name} {{\n{fields}}}")
}

/// The type whose values are the kernels of a family.
fn builds(names: &[String]) -> String {
    let values: String = names
        .iter()
        .map(|name| format!("/// [`super::{name}`].\npub const {name}: Self = Self(&super::{name});\n"))
        .collect();
    let all = joined(names, |name| format!("Self::{name}"));
    let from = match names {
        [only] => format!("impl From<()> for Build {{ fn from((): ()) -> Self {{ Self::{only} }} }}"),
        _ => String::new(),
    };
    format!(
        "/// One of the kernels.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Build(&'static crate::Kernel);
        impl Build {{
            {values}
        }}
        impl crate::Build for Build {{
            const ALL: &'static [Self] = &[{all}];
            fn kernel(self) -> &'static crate::Kernel {{
                self.0
            }}
        }}
        {from}"
    )
}

fn joined<T>(all: &[T], one: impl Fn(&T) -> String) -> String {
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn rust(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Uint => "u32",
        Kind::Float => "f32",
    }
}

/// The expression of a value's bits.
fn word(kind: Kind, value: &str) -> String {
    match kind {
        Kind::Bool => format!("u32::from({value})"),
        Kind::Uint => value.to_owned(),
        Kind::Float => format!("{value}.to_bits()"),
    }
}

/// `q_norm` for `QNorm`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}
