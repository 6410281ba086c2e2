// Package console serves the web console: pages about a cluster's jobs, nodes, policy and
// history for a browser (docs/console.md).
//
// Pages are rendered on the server and work without a script. A page is a list of
// sections (page.go): facts, tables, charts and forms, which html.go turns into HTML.
// The same tables answer ?format=csv and ?format=json. A script of our own asks for the
// page again when the server reports a change, and replaces the sections that differ.
//
// The package knows nothing of masters: everything that it shows comes from a Source, and
// everything that it changes goes through an Actor (package source). Both receive the request's
// context, which holds the identity of the sender, and enforce the access rules.
//
//	server.go    paths, headers, formats, errors
//	page.go      sections, tables and their CSV and JSON
//	samples.go   slots in use over time
//	insight.go   the policy's inner state over time, and what another policy would change
//	nodeload.go  load of nodes over time
//	results.go   results of simulations
//	grid.go      results of a study
//	cache.go     copies of the attempts of large jobs
//	chart.go     charts as SVG
//	timeline.go  attempts in lanes
package console
