"""Stage 6: the averaged model as TorchScript, and once more with its linear layers in 8 bits."""

import argparse
import warnings

import torch

from trainer.common import make_model, work_folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=work_folder, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--output_quant", required=True)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*deprecated")  # this way of quantising is, and still the shortest
    model = make_model(args.work)
    model.load_state_dict(torch.load(args.work / "average.pt", weights_only=True))
    model.eval()
    torch.jit.script(model).save(args.output)
    print(f"exported {args.output}")
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    torch.jit.script(quantised).save(args.output_quant)
    print(f"exported {args.output_quant}")


if __name__ == "__main__":
    main()
