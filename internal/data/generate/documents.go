package generate

import "context"

// documents makes many small files of text, for jobs in which each file is a
// document. The files have about the same size and hold whole lines only.
func documents(ctx context.Context, o Options) error {
	files, err := o.Params.Int("files", 1)
	if err != nil {
		return err
	}
	size := max(1, (o.Size+files-1)/files)
	return inParts(documentParts, size, zipfText)(ctx, o)
}
