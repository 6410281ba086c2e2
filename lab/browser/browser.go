// Package browser tests the console's pages in a real browser, against a master, workers, a
// history and simulations that run as processes.
package browser
