//! Writes every mutant of Rust files into these files. At run time `crate::mutant(N)` chooses the
//! mutant N, and none is the code as it was:
//!
//! ```text
//!  a == b   -->   if crate::mutant(7) { a != b } else { a == b }
//! ```
//!
//! So one build has all mutants. `tools/mutants` leaves out those that do not compile.

mod mutator;
mod replacements;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mutator::Mutator;

const USAGE: &str = "usage: mutator FOLDER NUMBERS FILE...
Mutates the files of a folder in place, without the mutants of these numbers (separated by commas), and prints each
mutant as: number, file, line, column, change, function; separated by tabs.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, without, files @ ..] = &*arguments else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match run(folder, without, files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &str, without: &str, files: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let numbers = without.split(',').filter(|number| !number.is_empty());
    let mut mutator = Mutator::without(numbers.map(str::parse).collect::<Result<_, _>>()?);
    for file in files {
        let path = Path::new(folder).join(file);
        let mut code = syn::parse_file(&fs::read_to_string(&path)?)?;
        let first = mutator.found.len();
        mutator.mutate(&mut code);
        fs::write(&path, prettyplease::unparse(&code))?;
        for one in &mutator.found[first..] {
            let (number, line, column) = (one.number, one.line, one.column);
            println!("{number}\t{file}\t{line}\t{column}\t{}\t{}", one.change, one.function);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the changes of a source text, and the text with the mutants.
    fn mutants_of(source: &str) -> (Vec<String>, String) {
        let mut code = syn::parse_file(source).unwrap();
        let mut mutator = Mutator::without(BTreeSet::new());
        mutator.mutate(&mut code);
        let changes = mutator.found.iter().map(|one| format!("{} in {}", one.change, one.function));
        (changes.collect(), prettyplease::unparse(&code))
    }

    #[test]
    fn a_comparison_has_a_mutant_for_each_other_operator() {
        let (changes, code) = mutants_of("fn is_less(a: u8, b: u8) -> bool { a < b }");
        assert_eq!(
            changes,
            [
                "replace < with == in is_less",
                "replace < with > in is_less",
                "replace < with <= in is_less",
                "replace is_less with true in is_less",
                "replace is_less with false in is_less",
            ]
        );
        for number in 1..=5 {
            assert!(code.contains(&format!("crate::mutant({number}u32)")), "{code}");
        }
    }

    #[test]
    fn fields_arms_guards_and_methods_have_mutants() {
        let (changes, _) = mutants_of(
            "impl Place {
                 fn moved(&self, by: Option<u8>) -> Place {
                     match by {
                         None => Place { at: 0, ..self.clone() },
                         Some(by) if !self.fixed => Place { at: by, ..self.clone() },
                         _ => self.clone(),
                     }
                 }
             }",
        );
        assert_eq!(
            changes,
            [
                "delete field at in Place::moved",
                "delete ! in Place::moved",
                "delete field at in Place::moved",
                "delete match arm None in Place::moved",
                "replace match guard with true in Place::moved",
                "replace match guard with false in Place::moved",
                "replace Place::moved with Default::default() in Place::moved",
            ]
        );
    }

    #[test]
    fn tests_and_constants_have_none() {
        let source = "const A: u8 = 1 + 2;\n#[cfg(test)]\nmod tests { fn f() -> bool { 1 == 2 } }";
        assert_eq!(mutants_of(source).0, Vec::<String>::new());
    }

    #[test]
    fn a_mutant_that_is_left_out_keeps_the_numbers_of_the_others() {
        let mut code = syn::parse_file("fn f(a: u8) -> bool { a < 2 }").unwrap();
        let mut mutator = Mutator::without(BTreeSet::from([2]));
        mutator.mutate(&mut code);
        let numbers: Vec<u32> = mutator.found.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 3, 4, 5]);
    }
}
