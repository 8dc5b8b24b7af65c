// Package coretest generates the trees and ignore files that the tests of the
// workspace engine need, and runs git as their oracle.
//
// Everything is generated from a random source with a fixed seed, so that a
// failure can be repeated. git runs without the configuration of the user.
package coretest
