package serverstest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Private is the first line that Own writes: servers that belong to one process.
type Private struct {
	Error   string   `json:",omitempty"`
	Env     []string // variables that lead a process to the servers
	Server  Server   // of S3
	Objects string   // directory with one file for each object of S3's bucket
	Cluster Cluster  // of HDFS
}

// Own runs servers of a kind below dir for a process that may kill and stop them. It
// writes a Private as a line of JSON, and then carries out one command for each line of
// in until in ends, which kills the servers. It answers each command with a line, which
// is empty or an error:
//
//	kill [HOST]      kills the S3 server, or a DataNode, as kill -9 does
//	restart [HOST]   starts it again with its data; S3 keeps its address
//	freeze [HOST]    suspends it: it keeps its connections and does not answer
//	thaw [HOST]      continues it
//	await            waits until all servers are ready
func Own(ctx context.Context, kind, dir string, dataNodes int, in io.Reader, out io.Writer) error {
	var p Private
	var carryOut func(command, host string) error
	switch kind {
	case "s3":
		s, err := startS3(ctx, dir, loopback)
		if err != nil {
			return refuse(out, err)
		}
		// A closure, because restart replaces s.
		defer func() { s.stop() }()
		p = Private{Env: s.Env(), Server: s.Server, Objects: filepath.Join(dir, "data", s.Bucket)}
		carryOut = func(command, _ string) error { return s.control(ctx, command, dir) }
	case "hdfs":
		s, err := startHDFS(ctx, dir, loopback, dataNodes, nil)
		if err != nil {
			return refuse(out, err)
		}
		defer s.stop()
		p = Private{Env: s.Env(), Cluster: s.Cluster}
		carryOut = func(command, host string) error { return s.control(ctx, command, host) }
	default:
		return fmt.Errorf("no servers of kind %q", kind)
	}
	if err := json.NewEncoder(out).Encode(p); err != nil {
		return err
	}
	// The end of in is the end of the parent: its servers must not outlive it.
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		command, host, _ := strings.Cut(lines.Text(), " ")
		answer := ""
		if err := carryOut(command, host); err != nil {
			// One line for each command: the parent reads answers by lines.
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// refuse writes a Private with an error and returns the error.
func refuse(out io.Writer, err error) error {
	_ = json.NewEncoder(out).Encode(Private{Error: err.Error()}) // err counts
	return err
}

// control carries out a command of Own.
func (s *s3Server) control(ctx context.Context, command, dir string) error {
	switch command {
	case "restart":
		return s.launch(ctx, dir)
	case "await":
		return nil // launch has waited
	}
	return s.proc.control(command)
}

// control carries out a command of Own.
func (s *hdfsServer) control(ctx context.Context, command, host string) error {
	if command == "await" {
		return await(ctx, "HDFS", s.ready, append(s.data, s.name)...)
	}
	i := slices.Index(s.Hosts, host)
	if i < 0 {
		return fmt.Errorf("no DataNode %q", host)
	}
	// With the same directory, so that the DataNode still has its blocks.
	if command == "restart" {
		p, err := s.launchDataNode(filepath.Join(s.dir, host))
		if err == nil {
			s.data[i] = p
		}
		return err
	}
	return s.data[i].control(command)
}

// control kills, suspends or continues a process.
func (p *process) control(command string) error {
	switch command {
	case "kill":
		p.kill()
		return nil
	case "freeze":
		return p.signal(syscall.SIGSTOP)
	case "thaw":
		return p.signal(syscall.SIGCONT)
	}
	return fmt.Errorf("unknown command %q", command)
}
