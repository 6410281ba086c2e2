// Package report writes what came out of simulated runs: tables for people,
// tables for programs, logs and plots. It decides nothing about runs and opens no
// files; everything goes to an io.Writer, the same bytes for the same runs.
//
//	table.go     the comparison of policies, as text
//	rows.go      jobs and attempts as rows
//	tables.go    rows as CSV and Parquet
//	eventlog.go  every event of the tracker and its effects
//	style.go     what all plots have in common
//	chart.go     bars and lines of any numbers
//	curves.go    slowdowns, slot use and queue length
//	lanes.go     Gantt: gathers what is in the slots
//	gantt.go     and draws it
package report
