// Package mustache renders templates of a subset of Mustache: variables,
// sections, inverted sections, comments and partials.
//
// Templates are data, not programs: there are no lambdas and no delimiters of
// one's own, partials may not recurse, and output is bounded, so rendering
// always ends. A value that is missing is an error with its path and line
// unless the caller allows it. Text is inserted as it is; with HTML escaping
// asked for, {{name}} is escaped and {{{name}}} and {{&name}} are not.
//
// The rules of the subset are those of the Mustache specification, including
// standalone tags and the indentation of partials.
package mustache
