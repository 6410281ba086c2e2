package cli

import (
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/master"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/storage/schemes"
	"github.com/slotwise/slotwise/internal/topology"
)

// config checks the flags.
func (f *masterFlags) config(stderr io.Writer) (master.Config, error) {
	var none master.Config
	log, err := f.logger(stderr)
	if err != nil {
		return none, err
	}
	switch {
	case f.dir == "":
		return none, misuse("--dir is missing: the directory of the master's own files")
	case f.nodeTimeout <= 0:
		return none, misuse("--node-timeout %v: must be positive", f.nodeTimeout)
	case f.heartbeat < 0:
		return none, misuse("--heartbeat %v: must not be negative", f.heartbeat)
	case f.keepEnded < 0:
		return none, misuse("--keep-ended %d: must not be negative", f.keepEnded)
	}
	set, err := f.policySettings()
	if err != nil {
		return none, err
	}
	if err := f.checkPolicy(set); err != nil {
		return none, err
	}
	rules, err := f.rules()
	if err != nil {
		return none, err
	}
	cfg := master.Config{
		Schemes: schemes.All(),
		Dir:     f.dir, Policy: f.policy, PolicySet: set, Policies: f.setup.policies, Seed: f.seed, NodeTimeout: f.nodeTimeout, Heartbeat: f.heartbeat,
		FairScheduler: f.fairScheduler, CapacityScheduler: f.capacityFile, KeepEnded: f.keepEnded, Version: version(), Log: log, Access: rules,
		Limits: master.Limits{File: int64(f.maxFile), Files: int64(f.maxFiles)},
	}
	if cfg.WorkerHTTP, cfg.WorkerScheme, err = f.workers(); err != nil {
		return none, err
	}
	if f.keepEnded == 0 {
		cfg.KeepEnded = -1
	}
	cfg.Rack, err = f.racks(log)
	return cfg, err
}

// racks opens the topology; nil if there is none.
func (f *masterFlags) racks(log *slog.Logger) (func(host string) string, error) {
	if f.topology == "" {
		return nil, nil
	}
	t, err := topology.Open(f.topology)
	if err != nil {
		return nil, misuse("--topology %s: %w", f.topology, reason(err))
	}
	return func(host string) string {
		rack, err := t.Rack(host)
		if err != nil {
			log.Warn("topology", "host", host, "error", err)
		}
		return rack
	}, nil
}

// rules are who may use which pools.
func (f *masterFlags) rules() (secure.Rules, error) {
	var r secure.Rules
	if f.access != "" {
		var err error
		if r, err = secure.LoadRules(f.access); err != nil {
			return r, misuse("--access: %w", err)
		}
	}
	pools, err := parseAssignments("pool-acl", f.poolACL)
	if err != nil {
		return r, err
	}
	if r.Pools == nil {
		r.Pools = map[string]secure.Pool{}
	}
	for pool, who := range pools {
		p := r.Pools[pool]
		p.Submit = strings.Split(who, ":")
		r.Pools[pool] = p
	}
	return r, nil
}

// logFlags say how a process that runs for long writes its log.
type logFlags struct{ logFormat, logLevel string }

// The values of the flags.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// register declares the flags.
func (f *logFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.logFormat, "log-format", "text", "`format` of the log on standard error: text or json")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "least `level` of what is logged: debug, info, warn or error")
	completeWords(c, "log-format", logFormats)
	completeWords(c, "log-level", logLevels)
}

// logger makes the log.
func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	if err := errors.Join(oneOf("log-format", f.logFormat, logFormats), oneOf("log-level", f.logLevel, logLevels)); err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, misuse("--log-level: %w", err)
	}
	o := &slog.HandlerOptions{Level: level}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
