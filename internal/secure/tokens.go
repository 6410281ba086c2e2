package secure

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/durable"
)

// tokenPrefix begins every token, so that scanners recognise a leaked one.
const tokenPrefix = "slw_"

// NewToken returns a token of more than 128 random bits. A plain SHA-256 of it is safe
// to store, because a random token cannot be guessed.
func NewToken() string { return tokenPrefix + rand.Text() }

// hashToken returns the hash that a tokens file stores.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Tokens maps tokens to identities. It never changes.
type Tokens struct{ list []tokenEntry }

type tokenEntry struct {
	hash [sha256.Size]byte
	id   Identity
}

// Find returns the owner of a token. It takes the same time for every wrong token,
// so that timing reveals nothing.
func (t *Tokens) Find(token string) (Identity, bool) { return t.find(hashToken(token)) }

// find returns the owner of the token with a hash.
func (t *Tokens) find(hash [sha256.Size]byte) (Identity, bool) {
	at := -1
	for i := range t.list {
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
// lines and lines that begin with # are ignored. Errors give the line's number and
// never its content.
func ParseTokens(data []byte) (*Tokens, error) {
	t := &Tokens{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		t.list = append(t.list, e)
	}
	return t, lines.Err()
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
		if word == "" || word == "-" || strings.ContainsAny(word, " \t\r\n,#") {
			return "", fmt.Errorf("%q is not a valid name of a user or group: it must not be empty or contain spaces, commas or #", word)
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
	file watchedFile[*Tokens]
}

// OpenTokens reads a tokens file. It refuses a file that other users can read or write.
func OpenTokens(path string) (*TokenFile, error) {
	t := &TokenFile{path: path}
	t.file.load = func() (*Tokens, error) {
		data, err := readPrivate(path)
		if err != nil {
			return nil, err
		}
		tokens, err := ParseTokens(data)
		if err != nil {
			return nil, fmt.Errorf("tokens file %s: %w", path, err)
		}
		return tokens, nil
	}
	t.file.paths = []string{path}
	_, err := t.file.get()
	return t, err
}

// Find returns the owner of a token. If the file can no longer be read or parsed, no
// token is valid and err gives the reason: somebody may have tried to revoke one.
func (t *TokenFile) Find(token string) (Identity, bool, error) { return t.find(hashToken(token)) }

// find returns the owner of the token with a hash, as Find.
func (t *TokenFile) find(hash [sha256.Size]byte) (Identity, bool, error) {
	tokens, err := t.file.get()
	if err != nil {
		return Identity{}, false, err
	}
	id, ok := tokens.find(hash)
	return id, ok, nil
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
