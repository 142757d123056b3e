//! The walk through a file that adds the mutants.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, File, ImplItemFn, ItemConst,
    ItemFn, ItemImpl, ItemMod, ItemStatic, Pat, ReturnType, Signature, Stmt, Type, UnOp,
    parse_quote,
};

use crate::replacements;

/// A mutant.
pub struct Mutant {
    /// Chooses it at run time.
    pub number: u32,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// What it changes, in words.
    pub change: String,
    /// The function, with the type of a method.
    pub function: String,
}

/// Adds all mutants to files.
pub struct Mutator {
    /// The mutants so far.
    pub found: Vec<Mutant>,
    without: BTreeSet<u32>,
    last: u32,
    /// The type whose methods are visited.
    owner: Option<String>,
    functions: Vec<String>,
}

impl Mutator {
    /// Returns a mutator that leaves out these mutants. They still count, so that the others keep
    /// their numbers.
    pub fn without(without: BTreeSet<u32>) -> Mutator {
        Mutator { found: Vec::new(), without, last: 0, owner: None, functions: Vec::new() }
    }

    /// Adds all mutants to a file.
    pub fn mutate(&mut self, code: &mut File) {
        self.visit_file_mut(code);
    }

    /// Returns the condition that a mutant is chosen, unless the mutant is left out.
    fn add(&mut self, place: Span, change: String) -> Option<TokenStream> {
        self.last += 1;
        let number = self.last;
        if self.without.contains(&number) {
            return None;
        }
        let start = place.start();
        let function = self.functions.last().cloned().unwrap_or_default();
        let (line, column) = (start.line, start.column + 1);
        self.found.push(Mutant { number, line, column, change, function });
        Some(quote!(crate::mutant(#number)))
    }

    /// Visits a function, and adds the mutants of its result.
    fn visit_function(
        &mut self,
        (attributes, signature): (&[Attribute], &Signature),
        block: &mut Block,
    ) {
        if is_of_tests(attributes) || signature.constness.is_some() {
            return;
        }
        let name = signature.ident.to_string();
        let place = block.stmts.first().map(Spanned::span);
        let path = match &self.owner {
            Some(owner) if self.functions.is_empty() => format!("{owner}::{name}"),
            _ => name,
        };
        self.functions.push(path.clone());
        visit_mut::visit_block_mut(self, block);
        if let Some(place) = place {
            let values = match &signature.output {
                ReturnType::Default => vec![quote!(())],
                ReturnType::Type(_, result) => replacements::of_result(result),
            };
            let returns = values.into_iter().filter_map(|value| {
                let chosen =
                    self.add(place, format!("replace {path} with {}", one_line(&value)))?;
                Some(parse_quote!(if #chosen { return #value; }))
            });
            let returns: Vec<Stmt> = returns.collect();
            block.stmts.splice(0..0, returns);
        }
        self.functions.pop();
    }

    /// Returns the expression with a mutant for each operator that replaces its own.
    fn binary(&mut self, binary: &ExprBinary) -> Option<Expr> {
        let ExprBinary { left, right, op, .. } = binary;
        let replacements = replacements::of_operator(op);
        // A condition with `let` cannot be in parentheses.
        if replacements.is_empty() || has_let(left) || has_let(right) {
            return None;
        }
        let assigns = is_assignment(op);
        let mut found: Expr = match assigns {
            true => parse_quote!({ #left #op #right }),
            false => parse_quote!(((#left) #op (#right))),
        };
        for other in replacements {
            let change = format!("replace {} with {other}", op.to_token_stream());
            let Some(chosen) = self.add(op.span(), change) else { continue };
            found = match assigns {
                true => parse_quote!({ if #chosen { #left #other #right } else { #found } }),
                false => parse_quote!((if #chosen { (#left) #other (#right) } else { #found })),
            };
        }
        Some(found)
    }
}

impl VisitMut for Mutator {
    fn visit_item_mod_mut(&mut self, item: &mut ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit_mut::visit_item_mod_mut(self, item);
        }
    }

    // Evaluated by the compiler, where no mutant can be chosen.
    fn visit_item_const_mut(&mut self, _: &mut ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut ItemStatic) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}

    fn visit_item_impl_mut(&mut self, item: &mut ItemImpl) {
        if !is_of_tests(&item.attrs) {
            let owner = one_line(&item.self_ty.to_token_stream());
            let before = self.owner.replace(owner);
            visit_mut::visit_item_impl_mut(self, item);
            self.owner = before;
        }
    }

    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        self.visit_function((&item.attrs, &item.sig), &mut item.block);
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        self.visit_function((&item.attrs, &item.sig), &mut item.block);
    }

    fn visit_expr_struct_mut(&mut self, item: &mut ExprStruct) {
        visit_mut::visit_expr_struct_mut(self, item);
        let Some(rest) = &item.rest else { return };
        for field in &mut item.fields {
            let (member, value) = (&field.member, &field.expr);
            let change = format!("delete field {}", member.to_token_stream());
            if let Some(chosen) = self.add(field.span(), change) {
                field.expr = parse_quote!(if #chosen { (#rest).#member } else { #value });
                field.colon_token = Some(Default::default());
            }
        }
    }

    fn visit_expr_match_mut(&mut self, item: &mut ExprMatch) {
        visit_mut::visit_expr_match_mut(self, item);
        let is_other = |pattern: &Pat| matches!(pattern, Pat::Wild(_));
        let has_other = item.arms.iter().any(|arm| arm.guard.is_none() && is_other(&arm.pat));
        for arm in &mut item.arms {
            let place = arm.pat.span();
            if let Some((_, guard)) = &mut arm.guard {
                if let Some(chosen) = self.add(place, "replace match guard with true".into()) {
                    **guard = parse_quote!((#chosen || #guard));
                }
                if let Some(chosen) = self.add(place, "replace match guard with false".into()) {
                    **guard = parse_quote!((!#chosen && #guard));
                }
            } else if has_other && !is_other(&arm.pat) {
                let pattern = one_line(&arm.pat.to_token_stream());
                if let Some(chosen) = self.add(place, format!("delete match arm {pattern}")) {
                    arm.guard = Some((Default::default(), parse_quote!(!#chosen)));
                }
            }
        }
    }

    fn visit_expr_mut(&mut self, item: &mut Expr) {
        visit_mut::visit_expr_mut(self, item);
        let found = match item {
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let chosen = self.add(unary.span(), "delete !".into());
                chosen.map(|chosen| parse_quote!((#chosen ^ (#unary))))
            }
            Expr::Binary(binary) => self.binary(&binary.clone()),
            _ => None,
        };
        if let Some(found) = found {
            *item = found;
        }
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let written = one_line(&attribute.to_token_stream());
        written.contains("cfg(test)") || written == "#[test]"
    })
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

fn is_assignment(operator: &BinOp) -> bool {
    operator.to_token_stream().to_string().ends_with('=')
        && !matches!(operator, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_))
}

/// Returns code as people write it on one line.
fn one_line(code: &TokenStream) -> String {
    let mut text = code.to_string();
    for (spaced, close) in [(" :: ", "::"), (" (", "("), ("( ", "("), (" )", ")"), (" ,", ",")] {
        text = text.replace(spaced, close);
    }
    for (spaced, close) in [(" < ", "<"), (" >", ">"), ("& ", "&"), (" [", "["), ("# [", "#[")] {
        text = text.replace(spaced, close);
    }
    text
}
