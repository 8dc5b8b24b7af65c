// Package identity stores users and their tokens, and identifies callers.
//
// A [User] has a login, an account type, roles and optionally a password. A [Token] is a
// credential of a user; it can be limited to a part of the rights of its owner. [Settings]
// are the settings of the configuration: the roles of account types, the lifetimes of
// tokens, the limits of failed logins. A [Principal] is an identified caller: name, roles
// and limits, as access rules use them.
//
// [Service] checks credentials and executes the actions of administrators on a [Store]. It
// holds all accounts in memory, so that a token costs one lookup and one hash. Each change
// is one call of [Store.Update]: the decision is a pure function of the stored accounts.
// With a store that other hosts change too, accounts are at most half a second old.
// [Memory] is a store without durability.
//
// Passwords are stored as argon2id hashes, tokens as SHA-256 hashes. The number of
// concurrent password hashes is bounded. Failed logins are counted in memory, per account
// and network of the caller, and per account.
//
// Concurrency: a Service and a Store are safe for concurrent use.
//
// Errors are of type *contract.Error. Wrong input of a caller has a type of the namespaces
// auth, user and role, or invalid-request. A wrong password, an unknown login and a locked
// account are the same error. A failure of the store is auth/busy when a caller is
// identified, and journal/unavailable for a change.
package identity
