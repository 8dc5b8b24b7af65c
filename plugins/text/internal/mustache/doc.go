// Package mustache renders templates in a subset of Mustache: variables,
// sections, inverted sections, comments and partials.
//
// Templates are data, not programs: there are no lambdas and no custom
// delimiters, partials must not recurse, and output is bounded, so rendering
// always ends. A missing value is an error with its path and line unless the
// caller permits it. Text is inserted unchanged; with HTML escaping, {{name}}
// is escaped and {{{name}}} and {{&name}} are not.
//
// The rules of the subset are those of the Mustache specification, including
// standalone tags and the indentation of partials.
package mustache
