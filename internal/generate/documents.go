package generate

import "context"

// documents makes many small files of text, for jobs in which a file is a
// document. All are about as long; each holds whole lines only.
func documents(ctx context.Context, o Options) error {
	files, err := o.Params.Int("files", 1)
	if err != nil {
		return err
	}
	size := max(1, (o.Size+files-1)/files)
	return inParts("document-%06d.txt", size, zipfText)(ctx, o)
}
