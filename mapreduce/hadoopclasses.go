package mapreduce

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/stream"
)

// hadoopClassMapper is a mapper class that is built in.
type hadoopClassMapper struct {
	hadoopBlocks
	w     hadoopWriter
	class string
	regex *regexp.Regexp // of RegexMapper; nil before the first line
	lines bool           // the mapper is missing: lines are records, divided as a command's output
}

// Start notes the task.
func (m *hadoopClassMapper) Start(t *Task) error {
	m.start(t)
	return nil
}

// Map is not called, because MapBlock is.
func (m *hadoopClassMapper) Map(_, value []byte, out *Emitter) error {
	// A copy, because the byte behind the value belongs to the next line.
	return m.MapBlock(append(value[:len(value):len(value)], '\n'), out)
}

// MapBlock maps a block of lines.
func (m *hadoopClassMapper) MapBlock(block []byte, out *Emitter) error {
	return m.each(block, func(key, value []byte) error {
		switch {
		case m.lines:
			return m.w.line(value, out)
		case m.class == hadoop.IdentityMapper, m.class == hadoop.IdentityReducer:
			return m.w.record(key, value, out)
		case m.class == hadoop.InverseMapper:
			return m.w.record(value, key, out)
		case m.class == hadoop.TokenCountMapper:
			for w := range bytes.FieldsFuncSeq(value, isJavaSpace) {
				if err := m.w.record(w, []byte("1"), out); err != nil {
					return err
				}
			}
		case m.class == hadoop.RegexMapper:
			return m.matches(value, out)
		default:
			return fmt.Errorf("the class %s is no mapper", m.class)
		}
		return nil
	})
}

// isJavaSpace reports whether Java's StringTokenizer divides words at r.
func isJavaSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' && r != '\v' }

// matches emits each match of mapreduce.mapper.regex, or of one of its groups, with a 1.
func (m *hadoopClassMapper) matches(line []byte, out *Emitter) error {
	conf := m.w.rules.Conf
	if m.regex == nil {
		var err error
		if m.regex, err = regexp.Compile(conf.Get("mapreduce.mapper.regex", "")); err != nil {
			return fmt.Errorf("mapreduce.mapper.regex: %w", err)
		}
	}
	// Two points: Hadoop's RegexMapper has the property with this spelling.
	group := conf.Int("mapreduce.mapper.regexmapper..group", 0)
	if group < 0 || group > m.regex.NumSubexp() {
		return fmt.Errorf("mapreduce.mapper.regex has no group %d", group)
	}
	for _, at := range m.regex.FindAllSubmatchIndex(line, -1) {
		// A group that did not take part in the match has no position.
		if at[2*group] >= 0 {
			if err := m.w.record(line[at[2*group]:at[2*group+1]], []byte("1"), out); err != nil {
				return err
			}
		}
	}
	return nil
}

// hadoopClassReducer is a reducer or combiner class that is built in.
type hadoopClassReducer struct {
	w     hadoopWriter
	class string
}

// Reduce reduces one group.
func (r *hadoopClassReducer) Reduce(sortKey []byte, values iter.Seq[[]byte], out *Emitter) error {
	key := r.w.rules.Key(sortKey)
	if r.class == hadoop.IdentityReducer || r.class == hadoop.IdentityMapper {
		for v := range values {
			if err := r.w.record(key, v, out); err != nil {
				return err
			}
		}
		return nil
	}
	if r.class != hadoop.LongSumReducer {
		return fmt.Errorf("the class %s is no reducer", r.class)
	}
	sum := int64(0)
	for v := range values {
		// Hadoop's class takes LongWritable only. Text with a number is taken here, as streaming jobs have no
		// other values.
		n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
		if err != nil {
			return fmt.Errorf("LongSumReducer: key %q: %w", key, err)
		}
		sum += n
	}
	return r.w.record(key, strconv.AppendInt(nil, sum, 10), out)
}

// hadoopAggregator is the reducer and combiner of -reducer aggregate.
type hadoopAggregator struct{ w hadoopWriter }

// Reduce aggregates the values of a key TYPE:ID.
func (a *hadoopAggregator) Reduce(sortKey []byte, values iter.Seq[[]byte], out *Emitter) error {
	key := a.w.rules.Key(sortKey)
	agg, id, err := hadoop.NewAggregator(key, a.w.rules.Conf.Int("aggregate.max.num.unique.values", -1))
	if err != nil {
		return err
	}
	for v := range values {
		if err := agg.Add(string(v)); err != nil {
			return fmt.Errorf("aggregate: key %q: %w", key, err)
		}
	}
	// A combiner's results are aggregated again, so they keep the key with its type.
	if a.w.toFile {
		return a.w.record(id, []byte(agg.Result()), out)
	}
	for _, v := range agg.Partial() {
		if err := a.w.record(key, []byte(v), out); err != nil {
			return err
		}
	}
	return nil
}

// linkCache puts the job's cached files and archives into a task's directory. A path
// without a leading slash is a file that the worker has put into the working directory of
// this process.
func linkCache(conf hadoop.Conf, dir string) error {
	for _, c := range []struct {
		property string
		put      func(from, to string) error
	}{
		{"mapreduce.job.cache.files", os.Symlink},
		{"mapreduce.job.cache.archives", putArchive},
	} {
		for _, item := range hadoop.SplitList(conf.Get(c.property, "")) {
			from, name, _ := strings.Cut(item, "#")
			if name == "" {
				name = path.Base(from)
			}
			// The name comes from the job's properties. With ".." a link could replace files outside
			// the directory.
			if !filepath.IsLocal(name) {
				return fmt.Errorf("%s: the name %q leaves the task's directory", c.property, name)
			}
			// A link with a relative target would be looked up from its own directory, not from this
			// process's.
			from, err := filepath.Abs(strings.TrimPrefix(from, "file://"))
			if err != nil {
				return err
			}
			to := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			if err := c.put(from, to); err != nil {
				return fmt.Errorf("%s: %s: %w", c.property, name, err)
			}
		}
	}
	return nil
}

// putArchive links a directory, or unpacks an archive into a new directory.
func putArchive(from, to string) error {
	if info, err := os.Stat(from); err != nil || info.IsDir() {
		return errors.Join(err, os.Symlink(from, to))
	}
	return stream.Unpack(from, to, filepath.Base(to))
}
