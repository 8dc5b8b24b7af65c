// Package killtest runs a test program again as a process that kills itself at a
// chosen operation of a store.
//
// TestMain asks [Killed] first; if it returns points, the program does the work
// that they name in place of its tests, with their faults. A test starts such
// processes with [RunKilled] and looks at what they left.
package killtest
