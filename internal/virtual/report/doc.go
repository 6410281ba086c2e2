// Package report writes the results of simulation runs: tables for people, tables for
// programs, logs and figures (SVG). It opens no files and writes to an io.Writer. Equal runs
// give equal bytes.
//
//	table.go     the comparison of policies, as text
//	record.go    what a result was made with, to make it again
//	rows.go      jobs and attempts as rows
//	tables.go    rows as CSV and Parquet
//	eventlog.go  every event of the tracker and its effects
//	chart.go     bars and lines of any numbers
//	curves.go    slowdowns, slot use and queue length
//	lanes.go     collects the contents of slots for a Gantt chart
//	gantt.go     draws the Gantt chart
package report
