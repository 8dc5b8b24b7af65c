// Package prompt composes what a language model is asked (PRM-001 to PRM-005).
//
// A [Layer] is a text of the operator: fragments joined by one space, in which
// nothing but {language}, {style}, {max_chars} and {schema} is a variable. A
// [Book] holds the layers of one configuration. [RoleOf] says under which role a
// capability serves a call, and which rule said so. [Book.Prepare] joins the
// layers of an intent and a role under the constraints of a call; that is done
// once for many calls. [Prepared.Compose] adds what one call brings.
//
// The text of a caller, a plugin or a model never becomes part of a layer: a
// variable takes a checked word or number of the constraints or the schema of
// the answer, and everything else goes into messages, where data is fenced with
// a fence that it cannot close. A system prompt of the caller replaces the
// layers; whether he may is decided before ([Overrides] finds those who try).
//
// Everything here is pure, immutable after construction and safe for use by any
// number of goroutines. Composing cannot fail; [NewLayer] reports what is wrong
// with a layer as [Problem] values, which the loader of the configuration gives
// their places.
package prompt
