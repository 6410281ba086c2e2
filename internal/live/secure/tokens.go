package secure

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/durable"
)

// tokenPrefix begins every token, so that scanners recognise a leaked one.
const tokenPrefix = "slw_"

// NewToken returns a token of more than 128 random bits. Its plain SHA-256 is safe to store,
// because a random token cannot be guessed.
func NewToken() string { return tokenPrefix + rand.Text() }

// hashToken returns the hash that a tokens file stores.
// No salt and no slow hash: those protect words that people choose, and a token is random.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Tokens maps tokens to identities. It never changes.
type Tokens struct{ list []tokenEntry }

type tokenEntry struct {
	hash [sha256.Size]byte
	id   Identity
}

// find returns the owner of the token with a hash. It takes the same time for every wrong
// token, so that timing reveals nothing.
func (t *Tokens) find(hash [sha256.Size]byte) (Identity, bool) {
	at := -1
	for i := range t.list {
		// No early return: the time must not reveal how far down the list a token is.
		if subtle.ConstantTimeCompare(hash[:], t.list[i].hash[:]) == 1 {
			at = i
		}
	}
	if at < 0 {
		return Identity{}, false
	}
	return t.list[at].id, true
}

// ParseTokens parses a tokens file. Each line holds a role, a name, groups separated
// by commas (or - for none), and the SHA-256 of the token in hexadecimal. Empty
// lines and lines that begin with # are ignored. A bad line disables only its own token:
// bad has an error for each, with the line's number and never its content.
func ParseTokens(data []byte) (t *Tokens, bad []error) {
	t = &Tokens{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseToken(fields)
		if err != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		t.list = append(t.list, e)
	}
	return t, bad
}

// parseToken parses the words of one line.
func parseToken(fields []string) (e tokenEntry, err error) {
	if len(fields) != 4 {
		return e, fmt.Errorf("it has %d words, not 4: role, name, groups and hash", len(fields))
	}
	if e.id.Role, err = ParseRole(fields[0]); err != nil {
		return e, errors.New("the first word is not a role")
	}
	e.id.User = fields[1]
	if fields[2] != "-" {
		e.id.Groups = strings.Split(fields[2], ",")
	}
	for _, name := range append([]string{e.id.User}, e.id.Groups...) {
		if bounds.CheckWord("", name) != nil {
			return e, errors.New("the name of the user or of a group is empty or contains slashes, control characters or invisible characters")
		}
	}
	hash, err := hex.DecodeString(fields[3])
	if err != nil || len(hash) != len(e.hash) {
		return e, errors.New("the last word is not a SHA-256 in hexadecimal")
	}
	e.hash = [sha256.Size]byte(hash)
	return e, nil
}

// TokenLine returns the line of a tokens file for a token.
func TokenLine(id Identity, token string) (string, error) {
	for _, word := range append([]string{id.User}, id.Groups...) {
		if err := bounds.CheckWord("the name of a user or group", word); err != nil {
			return "", err
		}
		if word == "-" || strings.ContainsAny(word, ",#") {
			return "", fmt.Errorf("%q is not a valid name of a user or group: it must not be - or contain commas or #", word)
		}
	}
	if _, err := ParseRole(string(id.Role)); err != nil {
		return "", err
	}
	groups := "-"
	if len(id.Groups) > 0 {
		groups = strings.Join(id.Groups, ",")
	}
	hash := hashToken(token)
	return fmt.Sprintf("%s %s %s %x\n", id.Role, id.User, groups, hash), nil
}

// AddToken creates a token for an identity, appends its line to a tokens file, and
// returns the token, which is stored nowhere. It creates the file if needed, readable
// for its owner only. The line is durable when AddToken returns nil.
func AddToken(path string, id Identity) (token string, err error) {
	return addToken(durable.OS(), path, id)
}

// addToken is AddToken on a given disk. Tests pass a disk that loses unsynced writes.
func addToken(disk durable.FS, path string, id Identity) (token string, err error) {
	token = NewToken()
	line, err := TokenLine(id, token)
	if err != nil {
		return "", err
	}
	f, err := disk.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	// Appending to an unfinished line would make one wrong line of two, and both tokens
	// invalid.
	if err = endsInNewline(f); errors.Is(err, errNoNewline) {
		line, err = "\n"+line, nil
	}
	if err == nil {
		// One write, so that lines of concurrent calls do not mix.
		_, err = io.WriteString(f, line)
	}
	if err == nil {
		err = f.Sync()
	}
	// After an error the line may be in the file all the same. Its token was never shown.
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return token, disk.SyncDir(filepath.Dir(path))
}

var errNoNewline = errors.New("the last line does not end in a newline")

// endsInNewline returns errNoNewline if the last line of a non-empty file is not
// terminated, as after editing by hand.
func endsInNewline(f durable.File) error {
	size, err := f.Size()
	if err != nil || size == 0 {
		return err
	}
	var last [1]byte
	// ReadAt may return io.EOF together with the last byte.
	if n, err := f.ReadAt(last[:], size-1); n == 0 {
		return err
	}
	if last[0] != '\n' {
		return errNoNewline
	}
	return nil
}

// TokenFile is a tokens file that is read again when it changes. It is safe for
// concurrent use.
type TokenFile struct {
	path string
	log  *slog.Logger
	file watchedFile[*Tokens]
	// opened is set when OpenTokens has read a valid version. The caller reports the error of
	// the first version.
	opened bool
	said   string // the last logged problem of the file, guarded by file.mu
}

// OpenTokens reads a tokens file. It refuses a file that other users can read or write, and
// one that has bad lines only. It logs bad lines of this version and of later ones.
func OpenTokens(path string, log *slog.Logger) (*TokenFile, error) {
	t := &TokenFile{path: path, log: log}
	t.file.load, t.file.paths = t.load, []string{path}
	_, err := t.file.get()
	t.opened = err == nil
	return t, err
}

// load reads the file. After an error the tokens of the last valid version stay valid: a
// mistake in the file must not lock out all users.
func (t *TokenFile) load() (*Tokens, error) {
	tokens, bad, err := readTokens(t.path)
	problem := err
	if err == nil {
		problem = errors.Join(bad...)
	}
	switch {
	case problem == nil:
		t.said = ""
	// OpenTokens returns the error of the first version, so it is not logged, too.
	case err != nil && !t.opened:
	case problem.Error() != t.said: // a file that cannot be read is tried again each second
		t.said = problem.Error()
		if err != nil {
			t.log.Error("cannot read the tokens file: the tokens of its last valid version stay valid, and no change takes effect", "file", t.path, "err", err)
		} else {
			t.log.Error("the tokens file has bad lines: their tokens are refused, the others are valid", "file", t.path, "err", strings.Join(strings.Split(t.said, "\n"), "; "))
		}
	}
	return tokens, err
}

// readTokens reads and parses a tokens file. A file whose lines are all bad is an error: it
// is another kind of file, or damaged.
func readTokens(path string) (*Tokens, []error, error) {
	data, err := readPrivate(path)
	if err != nil {
		return nil, nil, err
	}
	tokens, bad := ParseTokens(data)
	if len(bad) > maxBadLines {
		bad = append(bad[:maxBadLines:maxBadLines], fmt.Errorf("and %d more", len(bad)-maxBadLines))
	}
	// Accepting it would shut out every user, silently, because of a wrong file name.
	if len(tokens.list) == 0 && len(bad) > 0 {
		return nil, nil, fmt.Errorf("tokens file %s has no valid line: %w", path, errors.Join(bad...))
	}
	return tokens, bad, nil
}

// maxBadLines bounds the bad lines that an error lists.
const maxBadLines = 20

// find returns the owner of the token with a hash in the last valid version of the file.
func (t *TokenFile) find(hash [sha256.Size]byte) (Identity, bool) {
	tokens, _ := t.file.get() // load has logged the error
	return tokens.find(hash)
}

// readPrivate reads a file that holds secrets. It refuses a file that other users can
// read or that its group can write. The group may read it, because orchestrators
// mount secrets that way.
func readPrivate(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := st.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("%s holds secrets and other users can read or change it (mode %04o): run chmod 600 on it", path, mode)
	}
	return os.ReadFile(path)
}
