package bounds

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a name must not contain a character, because it is invisible and
// changes how a terminal, a log or a page shows the text around it, or makes two different
// names look alike: control characters (C0, DEL and C1), line and paragraph separators, and
// format characters, such as bidirectional overrides and zero-width spaces.
func Hidden(c rune) bool {
	if c < 0x7f { // nearly all characters of names, and counters are named for each record
		return c < ' '
	}
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// CheckName returns an error unless name is UTF-8 of at most Name bytes without Hidden
// characters. It accepts the empty name. All names pass through it where they enter: at the
// master, and in commands that make or send them. what names the value in the error, as in
// "the job's name". The error shows no character that CheckName refuses.
func CheckName(what, name string) error {
	if len(name) > Name {
		return fmt.Errorf("%s has %d bytes, more than the limit of %d", what, len(name), Name)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s %+q must be UTF-8", what, name)
	}
	// The error prints the name in quotes and escaped (%+q), since it goes to the same terminals and logs
	// that the check protects.
	if at := strings.IndexFunc(name, Hidden); at >= 0 {
		c, _ := utf8.DecodeRuneInString(name[at:])
		return fmt.Errorf("%s %+q contains %U: a name must not contain control characters, line separators or invisible formatting characters", what, name, c)
	}
	return nil
}

// CheckWord returns an error unless CheckName accepts name and name is not empty and has no
// spaces or slashes. It is the rule for users, groups, pools and workers, which become
// words of files and parts of paths.
func CheckWord(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s must have 1 to %d bytes", what, Name)
	}
	if err := CheckName(what, name); err != nil {
		return err
	}
	for _, c := range name {
		// Reading invalid UTF-8 gives U+FFFD.
		if unicode.IsSpace(c) || c == '/' || c == '\\' || c == utf8.RuneError {
			return fmt.Errorf("%s %+q: a name has no spaces, slashes or control characters", what, name)
		}
	}
	return nil
}

// CleanName returns a name in which each Hidden character and each invalid byte is replaced by
// U+FFFD. Names that a job's code gives to its counters are cleaned instead of refused: a
// counter must not fail an attempt.
func CleanName(name string) string {
	if strings.IndexFunc(name, Hidden) < 0 && utf8.ValidString(name) {
		return name
	}
	// Map reads an invalid byte as U+FFFD and writes that character.
	return strings.Map(func(c rune) rune {
		if Hidden(c) {
			return utf8.RuneError
		}
		return c
	}, name)
}
