// Package server starts one model server, waits until it answers, and stops it.
//
// A Plan says what is started. Start chooses a port, starts the process, asks it
// until it has completed one token, and gives a Server; or it gives the typed
// error of what came instead, and then no process is left. A server that ends
// later is noticed by waiting for its process; Died says of what.
//
// The process runs in a session of its own, which is killed as a whole when it
// ends, and which a second process (launch.Reaper) kills should this one die
// without stopping it. Its output is kept up to a bound. Timers run on the clock
// of the plan, except for those of the ladder by which a server is stopped.
//
// All methods may be called from many goroutines.
package server
