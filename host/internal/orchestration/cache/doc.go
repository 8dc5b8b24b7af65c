// Package cache stores accepted answers, so that an equal request need not be executed
// again (RUN-030 to RUN-034).
//
// Main types: Key holds everything on which an answer depends; a Store holds the answer
// under the hash of its Key. Nothing is invalidated when a session, a plugin or the
// configuration changes: later requests have other keys.
//
// A Store is safe for concurrent use. It evicts the least recently used answers beyond
// its settings. Equal requests at the same time share one execution: see memo.Memo.
package cache
