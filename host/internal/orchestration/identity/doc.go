// Package identity keeps users and their tokens, and tells who a caller is.
//
// A [User] has a login, an account type, roles and, if it may use one, a password.
// A [Token] is a credential of a user for programs; it can have a part of the
// rights of its owner. [Settings] are those of the configuration: which roles the
// account types have, how long tokens last, when logins are refused. A [Principal]
// is the outcome: name, roles and limits of a caller, as rules see it.
//
// [Service] decides about credentials and executes the actions of administrators
// on a [Store]. It holds all accounts in memory, so that a token costs one lookup
// and one hash. Each change is one call of [Store.Update]: the decision is a pure
// function of what is stored. With a store that other hosts change too, accounts are
// at most freshFor old. [Memory] is the store without durability.
//
// Passwords are kept as argon2id, tokens as SHA-256. A bounded number of password
// hashes is computed at once. Failed logins are counted in memory, per account and
// network of the caller, and per account.
//
// Concurrency: a Service and a Store are safe for concurrent use.
//
// Errors: those of callers have types of auth, user and role. A wrong password, an
// unknown login and a locked account are the same error. A failure of the store is
// auth/busy when a caller is identified, and journal/unavailable for a change.
package identity
