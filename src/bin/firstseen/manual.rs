//! `completions` and `man`: made from the definition of the command line, so they can't differ
//! from it.

use std::fs;
use std::io::Write;

use clap::{Command, CommandFactory};

use crate::args::{Args, Completions, Man};
use crate::failure::{Ending, Failure};

pub(crate) fn completions(args: &Completions) -> Result<Ending, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "firstseen", &mut text);
    print(&text)
}

pub(crate) fn man(args: &Man) -> Result<Ending, Failure> {
    let mut command = Args::command();
    command.build();
    let Some(to) = &args.to else {
        return print(&page(command, "firstseen")?);
    };
    fs::create_dir_all(to).map_err(|error| Failure::file(to, &error))?;
    let mut pages = vec![("firstseen".to_string(), command.clone())];
    pages.extend(verbs(&command, "firstseen"));
    for (name, command) in pages {
        let path = to.join(format!("{name}.1"));
        fs::write(&path, page(command, &name)?).map_err(|error| Failure::file(&path, &error))?;
    }
    Ok(Ending::Done)
}

/// The verbs and the verbs of these, under the names of their pages.
fn verbs(command: &Command, name: &str) -> Vec<(String, Command)> {
    let mut all = Vec::new();
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        let name = format!("{name}-{}", verb.get_name());
        all.extend(verbs(verb, &name));
        all.push((name, verb.clone()));
    }
    all
}

fn page(command: Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    // The name of a page, which lives as long as the program.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let rendered = clap_mangen::Man::new(command.name(name)).render(&mut text);
    rendered.map_err(|error| Failure::File(format!("{name}: {error}")))?;
    Ok(text)
}

fn print(text: &[u8]) -> Result<Ending, Failure> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text).and_then(|()| out.flush());
    printed.map_err(|error| Failure::stdout(&error))?;
    Ok(Ending::Done)
}
