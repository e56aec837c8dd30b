"""The models of crosscheck/run wild: files that lie in public repositories, other kinds than those of the zoo.

They were chosen by kind; none was left out because it failed. A file is
`path` of OWNER/NAME on GitHub, in the commit of COMMITS; the files themselves are not here.
"""

import dataclasses

COMMITS = {
    "Alirezak2n/Onnx_iDeepLC": "e80773af52f8569ec05ce1373f486e1dae6ffee2",
    "alonamaloh/kevins-dice": "a49294827989150b055f436439de47f2e2df8ef8",
    "ArianFiroozi/nn-graph": "3044dc48d77ad6cbfb607ff3b222ed171d66dd25",
    "Arwin-S/neuralink-challenge-submission": "2c0eb482c92954ed0b5c926bd16ef73bc7889ae3",
    "benedictbrady/dogfight-challenge": "10a6b40d717f54a631e833ef850fd2f1e4066798",
    "bgreenwell/bonsai": "4d247df469b7d8fc6ff5ea616c1ee0424d9c957c",
    "BioscaG/energy-disaggregation-mlops": "97aed5764d4fad30308d80f8a5a245ca785cf976",
    "breizhn/DTLN": "1de1f15a8b5b7e1c44905618ff2ef70ca8277fbc",
    "carstenheisterkamp/HandTrackingV3": "f051aa2b72095ed3ff53adb2765c008fb94d0315",
    "DaniAffCH/spqr-ball-perceptor": "2c0abe2c813e6737eb9b55b6affde2e8717bdf96",
    "dotnet/machinelearning": "cd2fbd617c13bcb98ec8b6554bfa20ac603e4572",
    "eiccodesign/regressiononly": "7cf74567eae16bb10fdd5ff5fb4d33a2d02bf2b6",
    "fastmachinelearning/qonnx": "cc2ec17b7d6a60c93f180f4cb2666dd89b1b64a1",
    "google-deepmind/mujoco_playground": "d5e6b47531328468da1eec33b8b304a00bb0873c",
    "google/magika": "b141dc37f004fc922a6281a417035560b4c7aae6",
    "GreenWaves-Technologies/yolox_people_detection": "3f1a88b1ab9d3aff1ef2d0d9c6a4a0c34733e96b",
    "HarryLVQ/har-classifier": "171163a066ae4eb98eb4ddc2b4186afc1132d609",
    "jeremyxu1998/needle-pretrain": "34ed897817bdb20d7634b867499e39ac80f59e87",
    "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy": "37b7921072f3ddd9d55dab64f9a1ed6627236f18",
    "KegangWangCCNU/FacePhys-Release": "8d775a32c97001f37613f040be890a9cc38678b6",
    "kivenyangming/yolox-bubbliiiing-onnx": "782f5b8ef7b1f01f0bf2d72e1b3233accd8da6ba",
    "kooose38/seq2seq-generations": "66cb689b06b4bf3bc945b108af2e6a75ff88e3e2",
    "lemon234071/Pytorch-TVM-LSTM": "4b2f77dad6485a2abc00f2af70463a9e39bab095",
    "Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB": "dffdddda9794a50607cba8f318507a28c1c27cab",
    "lyc280705/palmgraph-gesture-web-demo": "78d45780651fdfdd1b541059a7433aaaa40ea524",
    "microsoft/DNS-Challenge": "591184a9fcb2cbdec02520fed81a32bbbf9d73ff",
    "microsoft/onnxruntime-extensions": "319f8d2c02c4e2f013129bea52e70e75ba79bbcf",
    "microsoft/onnxruntime-inference-examples": "428b0399b871c258683ccfa9e9eb9e449ef01843",
    "nanguoyu/Magic_Wand_Data": "18618c54c10602076e10441ddc7f9082065c617a",
    "notAI-tech/NudeNet": "c474b54e8c347ea851a4a32b6a4fb0d83389aa66",
    "onnx/onnxmltools": "0934091aefca7cbd00d64d3cc207a66fae1e4d02",
    "onnx/sklearn-onnx": "33c9f268ab8b8bcb7e1ff07525d73f2e9e790361",
    "oracle/tribuo": "820026e6f843819c771c943b42f5cd22d58d0b00",
    "PINTO0309/onnx2tf": "2c0cb019b77bb7464828123eb3b708e05b4737a7",
    "pykeio/ort": "78de6d9d5a1c6c37825851fdb23a166a65f6490e",
    "ricky0123/vad": "3fec1747244c976861f8d4a482a02f16655155df",
    "rimim/duck_gym": "56a0c27e1239c8d399517b3efa27613b3e38550a",
    "sasekazu/sed-gen-web": "6dc9cdeae75fcec40428b53bad6934e875520c29",
    "snakers4/silero-vad": "806dcba3f0b5d95282d0889a074954a2f8c6397b",
    "spotify/basic-pitch": "fa5997af0a8210982619003269994a1be25eddf3",
    "suncal/latent-radio": "93fb4e87287fdaa97fbc48d667e6b780378c1c3f",
    "TACPSLab/snn-ctrl": "781f276cd7340907277df63bcbde17abf1bea7bc",
    "TEN-framework/ten-vad": "dddbeb16e6a4b4e9fa3bc4bf87f30fc26a19e963",
    "unitreerobotics/unitree_rl_lab": "e72a072c4db68b79a816b3b89bf3b6a0525d113e",
    "vespa-engine/vespa": "1f79d33dd014ea2f2e9ae4ee7a46da342f5e902c",
    "webonnx/wonnx": "c62f5d336c152102882a163ebc1eb18e63550de8",
    "Xiaobin-Rong/gtcrn": "3862c44808dca492ea5a8a145d2dc2a1028d08c8",
}


@dataclasses.dataclass
class Model:
    """One file, and what the code around it gives to it."""

    name: str
    repository: str
    path: str
    sha256: str
    shapes: dict = dataclasses.field(default_factory=dict)  # of inputs with open dimensions
    values: dict = dataclasses.field(default_factory=dict)  # inputs that shapes or branches depend on
    ranges: dict = dataclasses.field(default_factory=dict)  # of inputs whose values matter; half-open
    text: str = ""  # an input that is a picture of text, since noise has none

    @property
    def commit(self):
        return COMMITS[self.repository]


MODELS = (
    Model("silero-vad", "snakers4/silero-vad", "src/silero_vad/data/silero_vad.onnx", "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3", shapes={"input": (1, 576), "state": (2, 1, 128)}, values={"sr": 16000}),
    Model("silero-vad-legacy", "ricky0123/vad", "silero_vad_legacy.onnx", "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28", shapes={"input": (1, 1536), "h": (2, 1, 64), "c": (2, 1, 64)}, values={"sr": 16000}),
    Model("silero-vad-half", "snakers4/silero-vad", "src/silero_vad/data/silero_vad_half.onnx", "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769", shapes={"input": (1, 576), "state": (2, 1, 128)}),
    Model("silero-vad-op15", "snakers4/silero-vad", "src/silero_vad/data/silero_vad_16k_op15.onnx", "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49", shapes={"input": (1, 576), "state": (2, 1, 128)}, values={"sr": 16000}),
    Model("silero-vad-op18", "snakers4/silero-vad", "src/silero_vad/data/silero_vad_op18_ifless.onnx", "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28", shapes={"input": (1, 576), "state": (2, 1, 128)}, values={"sr": 16000}),
    Model("silero-vad-openvino", "snakers4/silero-vad", "src/silero_vad/data/silero_vad_openvino_16k.onnx", "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87"),
    Model("ten-vad", "TEN-framework/ten-vad", "src/onnx_model/ten-vad.onnx", "e10b98a0cab1c98e847fbdda14cb3d45a38336d47535a3f63a0fb6c4e0f4cdf4", shapes={"input_1": (1, 3, 41), "input_2": (1, 64), "input_3": (1, 64), "input_6": (1, 64), "input_7": (1, 64)}),
    Model("gtcrn", "Xiaobin-Rong/gtcrn", "stream/onnx_models/gtcrn.onnx", "f648b02f2d7ff96ebcb0eec2219688a08ed12fe7e3d50f248605a90eba8cad17"),
    Model("gtcrn-simple", "Xiaobin-Rong/gtcrn", "stream/onnx_models/gtcrn_simple.onnx", "b4718df6228e7bdf1a8a435cf98f838636eb2fd331acabf86ba87c5192ebcb87"),
    Model("dtln-1", "breizhn/DTLN", "pretrained_model/model_1.onnx", "22b91cae3855e5a0620e66a917ca6c82c58db0e842c770f58d86751c5e8d4ae3"),
    Model("dtln-2", "breizhn/DTLN", "pretrained_model/model_2.onnx", "e20c92f9233fccf29cddf86970d0d0161a03aebccc26d6f4d5639c4d5ec2e639"),
    Model("dnsmos", "microsoft/DNS-Challenge", "DNSMOS/DNSMOS/sig_bak_ovr.onnx", "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd", shapes={"input_1": (1, 144160)}, ranges={"input_1": (-1.0, 1.0)}),
    Model("dnsmos-bak", "microsoft/DNS-Challenge", "DNSMOS/DNSMOS/bak_ovr.onnx", "5f335c90994618150192a656a474bcf8a9cbcedbc47965494ba8da79605d1308", shapes={"input_1": (2, 901, 161)}),
    Model("dnsmos-p808", "microsoft/DNS-Challenge", "DNSMOS/DNSMOS/model_v8.onnx", "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91", shapes={"input_1": (1, 900, 120)}),
    Model("basic-pitch", "spotify/basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec", shapes={"serving_default_input_2:0": (1, 43844, 1)}, ranges={"serving_default_input_2:0": (-1.0, 1.0)}),
    Model("magika-v2", "google/magika", "assets/models/standard_v2_0/model.onnx", "7d1bca21d23fe7a507cb41bb651724b8b61a76a8e75f45c500da6b3b2f50782d", shapes={"bytes": (1, 4096)}, ranges={"bytes": (0, 257)}),
    Model("magika-v3", "google/magika", "assets/models/standard_v3_3/model.onnx", "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c", shapes={"bytes": (4, 2048)}, ranges={"bytes": (0, 257)}),
    Model("go1-policy", "google-deepmind/mujoco_playground", "mujoco_playground/experimental/sim2sim/onnx/go1_policy.onnx", "386cde6a1eac679e2f2a313ade2b395d9f26905b151ee3b019c2c4163d49b6f2"),
    Model("unitree-g1-policy", "unitreerobotics/unitree_rl_lab", "deploy/robots/g1/config/policy/velocity/v0/exported/policy.onnx", "610c27e463a8f666aa50a06346678c00b4df3859f10b54bcc1f817c28251406f"),
    Model("palm-detection", "carstenheisterkamp/HandTrackingV3", "models/palm_detection.onnx", "6b693ace4d8a3e6f88978172207519fe7f18b31a0bd1dcd06473afdeb0d88ecd", ranges={"input_1": (0.0, 1.0)}),
    Model("hand-landmark", "carstenheisterkamp/HandTrackingV3", "models/hand_landmark.onnx", "e5da483e20a3a405856abde400d8515cc484d4ea03bb02994bb86323b5df51a6", ranges={"input_1": (0.0, 1.0)}),
    Model("rfb-320", "Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB", "models/onnx/version-RFB-320.onnx", "34cd7e60aeff28744c657de7a3dc64e872d506741de66987f3426f2b79f88017"),
    Model("slim-320", "Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB", "models/onnx/version-slim-320.onnx", "e9adbd0f920ddcce9368434c4d34d72520dc0c19b526fd44b4ef49bde2c3b1a8"),
    Model("rfb-640-masked", "Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB", "masked_face/pretrained/RFB-640-masked_face-v2.onnx", "27ca3e5985f722e91efea7993f625716de627303c4bafb40bb26f456286beca8"),
    Model("ultraface", "microsoft/onnxruntime-inference-examples", "mobile/examples/Maui/MauiVisionSample/MauiVisionSample/Resources/Raw/Ultraface_version-RFB-320.onnx", "42c9e48b6e4cd026554b93173b09946be395cfc03bba28f0518831105899576f"),
    Model("yolox-nano", "kivenyangming/yolox-bubbliiiing-onnx", "yolox_nano.onnx", "adf37537143b2838136c83179e510f21908f0310ca36f183888cd6ba4aa02248"),
    Model("yolox-people", "GreenWaves-Technologies/yolox_people_detection", "weights/model.onnx", "9b48d7c7e9eb9f74394d86b8bdb2fc8914debf504fd17db594e9d94a8a1251ff"),
    Model("nms-yolov8", "notAI-tech/NudeNet", "docs/model/nms-yolov8.onnx", "7f24620fd976ac596dc5e539c59e1659c4627979b36b73e292cc8989b8d249e8", shapes={"detection": (1, 22, 2100)}, values={"config": [100, 0.45, 0.2]}, ranges={"detection": (0.0, 1.0)}),
    Model("graph-network", "eiccodesign/regressiononly", "gnn.onnx", "96bb136db817760ef109044516f250db56dd77041804b3bf2cf33845b619bea7", shapes={"x_nodes": (6, 2), "x_edges": (9, 1), "x_globals": (1, 1)}, values={"x_receivers": [0, 1, 2, 3, 4, 5, 0, 2, 4], "x_senders": [1, 2, 3, 4, 5, 0, 3, 5, 1], "x_n_node": [6], "x_n_edge": [9]}),
    Model("facephys", "KegangWangCCNU/FacePhys-Release", "weights/model.onnx", "a6922c3de4c18576842cf44b4f4cef664d51b536ced466c698d8f8bfd18188ba", ranges={"input": (0.0, 1.0), "dt": (0.03, 0.04)}),
    Model("fastestdet", "microsoft/onnxruntime-extensions", "test/data/ppp_vision/FastestDet.onnx", "7c5b2a5e5e65ad43fc6a6b096b9fd3794d425a94845acefb9b6879807eace079"),
    Model("super-resolution", "microsoft/onnxruntime-extensions", "test/data/ppp_vision/pytorch_super_resolution.onnx", "84dbb0a75273f936a81684438427f80d473e268eeb1b1c9a8556fcf7c25ddeaf", shapes={"input": (1, 1, 224, 224)}),
    Model("espcn-resize", "fastmachinelearning/qonnx", "src/qonnx/data/onnx/bsd300x3-espcn/nn_resize/float_model.onnx", "0810189408fe9e4590b1485c259743ab573741c031409c7f6891fb6a35c33161"),
    Model("attention", "fastmachinelearning/qonnx", "src/qonnx/data/onnx/matmul_update/sdp.onnx", "adf99c6c6b8a19c52fd7d7333f84a200cfd71807d9c40398fe05af5bb47a63a9"),
    Model("residual-block", "fastmachinelearning/qonnx", "src/qonnx/data/onnx/residual_block_clean.onnx", "104cabb9971534430c5ed935131268fd4c101f297399589b48a78e300f9351de"),
    Model("ppocr-v3-det", "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy", "models/ch_PP-OCRv3_det_infer.onnx", "01c414b39144bf1d1238c5e8ee1e23d5c5b96b231cea0b71ceba16c05434e5cc", shapes={"x": (1, 3, 96, 160)}, text="x"),
    Model("ppocr-v2-det", "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy", "models/ch_PP-OCRv2_det_infer.onnx", "09a1d823ed76f2afeb412d76c8aadd58d249a776ed1d6d0d694138c9ed9c35f1", shapes={"x": (1, 3, 96, 160)}, text="x"),
    Model("ppocr-det-pruned", "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy", "models/ch_ppocr_mobile_v2.0_det_prune_infer.onnx", "118c7be1530526d6d7113d6a4f27bd9da3feab086d8d8e7a7d9c89e017926033", shapes={"x": (1, 3, 96, 160)}),
    Model("ppocr-cls", "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "904752be039cbcef147d1cc3ff486091a8f4623fd24a1b3325028455f4ff430d", shapes={"x": (2, 3, 48, 192)}),
    Model("ppocr-cls-modified", "Kahsolt/CCF-BDCI-2024-TPU-ocr-deploy", "models/ch_ppocr_mobile_v2.0_cls_infer.modify.onnx", "efcf8dbc6e5efdc996f66c8b2edf0a4d866bc8d32262258c081f7acd0587ddac", shapes={"x": (2, 3, 48, 192)}),
    Model("palmgraph-int8", "lyc280705/palmgraph-gesture-web-demo", "models/model.int8.onnx", "6863663b73850593621a6c2d61cf366ef5f76b0bd5a7308ece0b9457ec353ecf", shapes={"landmarks": (1, 63), "geom": (1, 79)}),
    Model("seq2seq-encoder", "kooose38/seq2seq-generations", "models/encoder.onnx", "f5f640275a5a54dda31fa024dc67fd899286bb3f3f128430fd7995f4c84982b6"),
    Model("seq2seq-decoder", "kooose38/seq2seq-generations", "models/decoder.onnx", "90c88c16d468305017d34244cd7f3ab2b7261074e7bffe51cdb919f854a9eeb0"),
    Model("needle-rnn", "jeremyxu1998/needle-pretrain", "models/rnn.onnx", "45db811b291ac526324f9e35d1e149a3b8ce8a7b68538555350bcf6c695fc50d"),
    Model("ideeplc-tf", "Alirezak2n/Onnx_iDeepLC", "tf_model.onnx", "66671ce7bccf30138e23e14af32abf9af83113da5078f821fdabe70de458fac2", shapes={"keras_tensor": (3, 49, 62)}),
    Model("ideeplc", "Alirezak2n/Onnx_iDeepLC", "model.onnx", "f025b947b63b695f53376f7cd03d98776c018df766b6ff44a7e9314a7047f6d4"),
    Model("patches-attention", "ArianFiroozi/nn-graph", "models/model_big.onnx", "88760887674dbebecdb6175d10e17b625b1ca56a6cc820ee43e72b49792dacc8"),
    Model("mlnet-logistic", "dotnet/machinelearning", "test/BaselineOutput/Common/Onnx/MultiClassClassification/BreastCancer/MultiClassificationLogisticRegressionSaveModelToOnnxTest.onnx", "daddb0881ade5f9562f72bec8573ba2abad3d63349cf2ce91613c83354d048ac"),
    Model("sklearn-trees", "onnx/sklearn-onnx", "tests/datasets/treecl.onnx", "2b13998a8709c57a01b97faecd7203e1ae117716d62756d3cdc92bbaa163c95c", shapes={"input": (5, 20)}),
    Model("sklearn-zipmap", "bgreenwell/bonsai", "assets/model.onnx", "33aa170164419d95edb5812dec5a3832336acb6a903faaa0ffa46edf0ceb9fd5", shapes={"X": (5, 4)}),
    Model("sklearn-linear", "oracle/tribuo", "Interop/ONNX/src/test/resources/org/tribuo/interop/onnx/lr_mnist.onnx", "d46fd7700cca68ab2a55d846c78dbfd777e14a6f29b4bf444765f58baa66ff6b", shapes={"float_input": (1, 784)}),
    Model("tribuo-iris", "oracle/tribuo", "Interop/OCI/src/test/resources/org/tribuo/interop/oci/iris-lr-model.onnx", "ec7867b3467618f21943c1708f157f71ff325d367b6b1b42ff18b249abebc77f", shapes={"input": (5, 4)}),
    Model("tinybert", "oracle/tribuo", "Interop/ONNX/src/test/resources/org/tribuo/interop/onnx/extractors/tinybert.onnx", "4cc1b2cd6b06faccbe077bb449ac2d5973cf84506ea4acb3a3b8b8dc653438e0", shapes={"input_ids": (2, 9), "attention_mask": (2, 9), "token_type_ids": (2, 9)}, ranges={"token_type_ids": (0, 2)}),
    Model("cnn-mnist", "oracle/tribuo", "Interop/ONNX/src/test/resources/org/tribuo/interop/onnx/cnn_mnist.onnx", "81602d5ede13305af0974c2d0659e2c861cacc0cb50bde550c1663c796352e08", shapes={"input_image": (3, 1, 28, 28)}),
    Model("cntk-mnist", "fastmachinelearning/qonnx", "src/qonnx/data/onnx/mnist-conv/model.onnx", "2f06e72de813a8635c9bc0397ac447a601bdbfa7df4bebc278723b958831c9bf"),
    Model("cntk-mnist-simplified", "webonnx/wonnx", "data/models/opt-mnist.onnx", "486cf6b7d7cdb5fdce37e65537326fac02f9c9866efe1f09e3f9779e495e8624"),
    Model("vespa-decoder", "vespa-engine/vespa", "model-integration/src/test/models/onnx/llm/random_decoder.onnx", "dd2fe7701fc18ba69354c113511c3483506d4c83fc5920a7dbed72ee202fc11d", shapes={"input_ids": (1, 4), "encoder_attention_mask": (1, 7), "encoder_hidden_states": (1, 7, 8)}),
    Model("vespa-encoder", "vespa-engine/vespa", "model-integration/src/test/models/onnx/llm/random_encoder.onnx", "89245037252ec11e60135963d4d1a1c448a601305adc11a9648fb3319b584e22", shapes={"input_ids": (1, 7), "attention_mask": (1, 7)}),
    Model("vespa-mlm", "vespa-engine/vespa", "model-integration/src/test/models/onnx/transformer/dummy_transformer_mlm.onnx", "f7d2d0f3ea825220e5d2df82741004ee6c003b3f9a7eaa3e92c27e551db5b8ca", shapes={"input_ids": (1, 8), "attention_mask": (1, 8), "token_type_ids": (1, 8)}, ranges={"token_type_ids": (0, 2)}),
    Model("vespa-embedder", "vespa-engine/vespa", "model-integration/src/test/models/onnx/transformer/dummy_transformer.onnx", "4c3166b84e362610e4ce07ed1180855c11510d77f4872fbf91cab9b110be0f5d", shapes={"input_ids": (2, 8), "attention_mask": (2, 8), "token_type_ids": (2, 8)}, ranges={"token_type_ids": (0, 2)}),
    Model("vespa-softmax", "vespa-engine/vespa", "application/src/test/app-packages/model-evaluation/models/onnx/mnist_softmax.onnx", "11e28d531a263d40f7cf66b81995827de1bf04b499b636b7d8daf7750e0318b2", shapes={"Placeholder:0": (4, 784)}),
    Model("unet-sketch", "sasekazu/sed-gen-web", "unet.onnx", "0ecfef22dd33826ac035c2145ac888c0360c7076ccb3efd77496ab6027a6d00f", shapes={"input": (1, 1, 224, 224)}),
    Model("latent-encoder", "suncal/latent-radio", "encoder.onnx", "7da5ee9f875f5fc843e55ae2cd2c42664eaedde871278999ba4df0f21f436608", shapes={"image": (2, 1, 28, 28)}),
    Model("latent-decoder", "suncal/latent-radio", "decoder.onnx", "a0b183c4a815c2b98b7012987d06cfd00bf8ee8887fddd1950f65f02661a16c3", shapes={"symbols": (2, 128)}),
    Model("upsample", "pykeio/ort", "tests/data/upsample.onnx", "c64fa1baa3c26bc2c2d2011f04ad54bd85a700f26b0fdc439e1ce65fd5ca2fff", shapes={"up_sampling2d_input:0": (1, 5, 6, 3)}),
    Model("spike-encoder", "Arwin-S/neuralink-challenge-submission", "models/encoder.onnx", "60c43c1e949e11cd19598bd6a20d40481d2a8ca519162a91a1449f1960ba4eed", shapes={"input": (2, 1, 256)}, ranges={"input": (0.0, 50.0)}),
    Model("spike-decoder", "Arwin-S/neuralink-challenge-submission", "models/decoder.onnx", "772040f1eb443f27ff09162e1c46385992ceab473d4c9d8f592a52182f09c790", shapes={"input": (2, 1, 8)}),
    Model("load-disaggregation", "BioscaG/energy-disaggregation-mlops", "models/model.onnx", "daf5e4d0efaeed126e85f572899e043456d80a0a809272f4785cb2dd3047a348", shapes={"x": (2, 1, 100)}),
    Model("ball-perceptor", "DaniAffCH/spqr-ball-perceptor", "models/model.onnx", "ae44bbe6a0c6cd5c336a0cb2dc60bc4c5ad9247a3ad8f18799e9e85dda43abd6", shapes={"input": (3, 1, 32, 32)}),
    Model("activity-forest", "HarryLVQ/har-classifier", "models/model.onnx", "db462a54521af8c8f093cb10f4cb4acb73eca0bbef09e9373e03d959c7e9a360", shapes={"X": (5, 105)}),
    Model("torch-attention", "PINTO0309/onnx2tf", "make_test_op/ops/Attention_torch2.8_23.onnx", "6498a9181a42656ba11d8e2ac6e6d01c1eab79a77e9ca910bed4fe74e5aa6547"),
    Model("grid-sample", "PINTO0309/onnx2tf", "make_test_op/ops/GridSample_11.onnx", "334fb1a8f0b8e009c63cb6c857abd75920fc0c4586e10ca9c4d232628fab5de6"),
    Model("if-branches", "PINTO0309/onnx2tf", "make_test_op/ops/If_p3_11.onnx", "945ba3e07282f4c046e4b8195d6b15212b613d07329873dd3f56018b26d53408"),
    Model("cntk-lstm", "PINTO0309/onnx2tf", "make_test_op/ops/LSTM.tanh.bidirectional.onnx", "5313f42f26c1e21117a0247093a9fa4ceff3a31796e445bbf989fabc6ec5b84c", shapes={"Input3": (7, 1, 2)}),
    Model("stft", "PINTO0309/onnx2tf", "make_test_op/ops/STFT_17.onnx", "46a3192a3b9b3b6fa98ed4fa80926451767bc8ca999c962cc9ec12eaa878bfa7"),
    Model("spiking-policy", "TACPSLab/snn-ctrl", "mapless_navi/scripts/policy.onnx", "2717efd3c8db6eeb2930cbb6a3abba7881dcd28d8950bb47ffbf4917935f4335"),
    Model("dice-policy", "alonamaloh/kevins-dice", "policy.onnx", "e91f0feab5c8fd95da5d1e50cb1f4f05b3efa6da7e23bb3982d2756550c9aa0b", shapes={"move_features": (6, 9)}),
    Model("dogfight-policy", "benedictbrady/dogfight-challenge", "models/starter.onnx", "2a8e1907a64bb216e745bc0a45425b0b4dfae7435d8b3e6f32f34bf827ae720b", shapes={"obs": (2, 224)}),
    Model("row-lstm", "lemon234071/Pytorch-TVM-LSTM", "lstm.onnx", "3ee907551896367e6a40fb532bacaae673064f93326e2496f0ef2eef88aab219"),
    Model("magic-wand", "nanguoyu/Magic_Wand_Data", "weights/model.onnx", "773932459f8717d25a73b5d5ed58086c3f4a21d9da57b599e52071d660e3f407"),
    Model("coreml-one-hot", "onnx/onnxmltools", "tests/utils/models/coreml_OneHotEncoder_BikeSharing.onnx", "a11e20ba8288146a5d273f2dc9ebfd2d6ae363ef71f1b95d64b4f6ab34f56828"),
    Model("xgboost", "onnx/onnxmltools", "tests/xgboost/test_xgb.onnx", "a3ce385cc11b912c164b4bb21f0aad1f1edb3a3564fe837cf35d015a8ffe9e24", shapes={"X": (5, 4)}, ranges={"X": (0.0, 7.0)}),
    Model("duck-policy", "rimim/duck_gym", "policy.onnx", "607753a7c9a4d81fcee18efe65c7461250c0a584ac925942bcfce7ef7552b2a6"),
)
