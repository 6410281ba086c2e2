package serverstest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// cacheDir returns the directory for fetched and built programs.
func cacheDir() (string, error) {
	dir := os.Getenv("SLOTWISE_TEST_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "slotwise-test")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// withLock runs f while it holds the lock of a file, which it creates if necessary.
func withLock(path string, f func() error) error {
	l, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := flock(l, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	return f()
}

// flock repeats the call when a signal interrupts it: Go's runtime preempts goroutines by signals.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// Cached returns a directory in the cache, filled by make. The directory's name
// contains a checksum of files. It appears whole, and one process at a time fills it.
func Cached(name string, files []string, make func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		// A changed pom.xml or go.mod gives another directory, so old programs are never used with new
		// settings.
		sum.Write(b)
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%.8x", name, sum.Sum(nil)))
	return dir, withLock(dir+".lock", func() error {
		if _, err := os.Stat(dir); err == nil {
			return nil
		}
		// Renamed when it is complete. A build that was killed leaves it, and the next one removes it.
		tmp := dir + ".tmp"
		if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
			return err
		}
		if err := make(tmp); err != nil {
			return errors.Join(fmt.Errorf("preparing the test servers: %w", err), os.RemoveAll(tmp))
		}
		return os.Rename(tmp, dir)
	})
}

// The directories in Hadoop's cache directory.
const (
	jarsDir = "jars"
	nameDir = "name" // the data of a newly formatted NameNode; each start copies it
)

// hadoopJars returns the cache directory with HDFS's jars.
func hadoopJars() (string, error) {
	if err := needTools("HDFS", "the Debian packages default-jdk-headless and maven, or their like", "java", "mvn"); err != nil {
		return "", err
	}
	src, err := SourceDir("internal", "testkit", "serverstest", "hadoop")
	if err != nil {
		return "", err
	}
	pom := filepath.Join(src, "pom.xml")
	return Cached("hadoop", []string{pom}, func(dir string) error {
		if err := copyJars(src, pom, dir); err != nil {
			return err
		}
		return format(dir)
	})
}

const archiveFile = "classes.jsa"

// classArchive returns the path of an archive of the classes that HDFS's daemons and its shell
// load from the jars of the cache directory. A JVM that maps the archive skips the parsing and the verification of
// these classes, which is half of the processor time of a start.
func classArchive(cache string) (string, error) {
	src, err := SourceDir("internal", "testkit", "serverstest", "hadoop")
	if err != nil {
		return "", err
	}
	home, err := javaHome()
	if err != nil {
		return "", err
	}
	// A JVM uses no archive of another version, and none whose jars are at another path: so it
	// is not made with the jars, which move when they are complete.
	files := []string{filepath.Join(src, "pom.xml"), filepath.Join(home, "release")}
	dir, err := Cached("classes", files, func(dir string) (err error) {
		for range 3 { // another process may take a port between its choice and its use
			if err = archiveClasses(cache, dir); err == nil {
				break
			}
		}
		return err
	})
	return filepath.Join(dir, archiveFile), err
}

// archiveClasses starts an HDFS, notes which classes its daemons and its shell load, and
// archives these below dir.
func archiveClasses(cache, dir string) error {
	work := filepath.Join(dir, "hdfs")
	if err := os.RemoveAll(work); err != nil { // of an earlier try
		return err
	}
	s := &hdfsServer{host: loopback, dir: work, cache: cache}
	defer s.stop()
	if err := s.start(context.Background(), 1); err != nil {
		return err
	}
	jars := filepath.Join(cache, jarsDir)
	shell := append(jvm(jars, s.ConfDir, loadedClasses(s.ConfDir)), "org.apache.hadoop.fs.FsShell", "-ls", s.URI("/"))
	if err := run(work, shell[0], shell[1:]...); err != nil {
		return err
	}
	for _, p := range append(s.data, s.name) {
		// A JVM that is killed may leave half a line in its list.
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		<-p.done
	}
	lists, err := filepath.Glob(filepath.Join(work, "*", classList))
	if err != nil {
		return err
	}
	var classes []byte
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			return err
		}
		classes = append(classes, b...)
	}
	list := filepath.Join(work, classList)
	if err := os.WriteFile(list, classes, 0o644); err != nil {
		return err
	}
	return errors.Join(
		run(work, "java", "-Xshare:dump", "-XX:SharedClassListFile="+list,
			"-XX:SharedArchiveFile="+filepath.Join(dir, archiveFile), "-cp", jars+"/*"),
		os.RemoveAll(work),
	)
}

const classList = "classes.lst"

// loadedClasses is the option with which a JVM lists the classes that it loads.
func loadedClasses(dir string) string {
	return "-XX:DumpLoadedClassList=" + filepath.Join(dir, classList)
}

// yarnJars returns the directory with YARN's jars.
func yarnJars() (string, error) {
	if _, err := hadoopJars(); err != nil { // the file system below YARN
		return "", err
	}
	src, err := SourceDir("internal", "testkit", "serverstest", "yarn")
	if err != nil {
		return "", err
	}
	pom := filepath.Join(src, "pom.xml")
	dir, err := Cached("yarn", []string{pom}, func(dir string) error { return copyJars(src, pom, dir) })
	return filepath.Join(dir, jarsDir), err
}

// copyJars fetches the dependencies of a pom.xml into the directory jarsDir of dir.
func copyJars(src, pom, dir string) error {
	return run(src, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DoutputDirectory="+filepath.Join(dir, jarsDir), "-DincludeScope=runtime")
}

const s3Command = "versitygw"

// s3Binary returns the path of the S3 server.
func s3Binary() (string, error) {
	if err := needTools("S3", "Go", "go"); err != nil {
		return "", err
	}
	src, err := SourceDir("internal", "testkit", "serverstest", "s3server")
	if err != nil {
		return "", err
	}
	mod := []string{filepath.Join(src, "go.mod"), filepath.Join(src, "go.sum")}
	dir, err := Cached("s3", mod, func(dir string) error {
		return run(src, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, s3Command),
			"github.com/versity/versitygw/cmd/versitygw")
	})
	return filepath.Join(dir, s3Command), err
}

// run runs a command. The error contains the command's output.
func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// The settings of the tests' own module must not apply to the other modules.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
