// Package prompt composes the prompts of language models (PRM-001 to PRM-005).
//
// A [Layer] is a text of the operator: fragments joined by one space, in which only
// {language}, {style}, {max_chars} and {schema} are variables. A [Book] holds the layers of
// one configuration. [Book.RoleOf] returns the role under which a capability serves a call,
// and the rule that determined it. [Book.Prepare] joins the layers of an intent and a role
// under the constraints of a call, once for many calls. [Prepared.Compose] adds the values
// of one call.
//
// The text of a caller, a plugin or a model never becomes part of a layer: a variable takes
// a checked word or number of the constraints or the schema of the answer, and everything
// else goes into messages, where data is fenced with a fence that it cannot close. A system
// prompt of the caller replaces the layers; the permission for it is checked before
// ([Overrides] finds the calls that need it).
//
// All functions are pure; all values are immutable after construction and safe
// for concurrent use. Composing cannot fail; [NewLayer] reports mistakes in a
// layer as [Problem] values, to which the configuration loader adds their
// places.
package prompt
